/** The real server raised here: a 500 with only `content-length: 0`, and no change (observed: recordings/errors_by_accept). */
export class ServerCrash extends Error {}
