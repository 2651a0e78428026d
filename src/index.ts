/** The library. Only `apply` talks to a server, opens files or reads a clock. The version number covers what is exported here, no more. */
export {
  type Applied,
  type ApplyRequest,
  apply,
  type LiveBodies,
  type Planned,
  type PlanRequest,
  plan,
  type Server,
  toJson,
  toText,
  validate,
} from './library/apply-manifests.ts';
export type { ManifestFile, PlanningRequest, PolicyRequest } from './library/policy.ts';
export {
  type DestinationRequest,
  type Explained,
  effectBetween,
  explain,
  type PacketRequest,
  type PolicyVersion,
  reach,
  runTests,
  type Tested,
  type VerdictEntry,
  type VerdictHistory,
  verdictHistory,
  verdicts,
  whoReaches,
} from './library/questions.ts';
export type { Place, Problem, Severity } from './model/problem.ts';
export type { Change, ChangeAction, Exposure, Plan, Refusal, Step } from './plan/plan.ts';
export type { ReachableTraffic } from './policy/reach.ts';
export type { Effect, Traffic } from './policy/traffic.ts';
