import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/server.ts';

interface Reply {
  readonly status: number;
  readonly body: unknown;
}

/** A running simulator and an administrator who calls it. */
export interface Client {
  readonly simulator: Simulator;
  readonly call: (method: string, path: string, body?: unknown) => Promise<Reply>;
}

/** Starts a simulator that knows the token `secret`. */
export async function startClient(options: Partial<SimulatorOptions> = {}): Promise<Client> {
  const simulator = await startSimulator({ token: 'secret', ...options });
  const call = async (method: string, path: string, body?: unknown): Promise<Reply> => {
    const response = await fetch(`${simulator.url}${path}`, {
      method,
      headers: { authorization: 'Bearer secret', accept: 'application/json', 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : JSON.parse(text) };
  };
  return { simulator, call };
}
