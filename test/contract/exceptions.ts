/** The whole list of what is recorded and not played as recorded, with the reason. */
export const EXCEPTIONS = {
  /** Steps of http_transport whose last answer is not compared. */
  lastAnswer: {
    pipeline_post_post_get:
      'The real server works on pipelined requests at the same time, and its GET overtook the two POSTs. Here each is done in turn.',
  },
  /** Steps whose `updated_at` is not compared with the step before; whether it changes is. */
  updatedAt: {
    configuration_oidc: {
      steps: ['providers_empty', 'providers_object', 'final_get'],
      reason: 'The recorder put the row back in the database between the steps; here that is done over the API.',
    },
  },
  /** Headers that are not compared. */
  headers: {
    date: 'Another in every run; its presence and length are compared.',
    'x-request-id': 'Another in every run; its presence and length are compared.',
    connection: 'Depends on the client; compared in the raw streams of http_transport and on statuses from 414 on.',
  },
} as const;
