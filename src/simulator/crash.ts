/**
 * The real server raised an exception here: the answer is a 500 with nothing but `content-length: 0`, and no change.
 * Observed: recordings/errors_by_accept and every empty 500 elsewhere.
 */
export class ServerCrash extends Error {}
