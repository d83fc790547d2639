/**
 * The room's public names. Workflow code does not import this file (`digest.ts` needs `node:crypto`, `contract-file.ts`
 * zod, `json-schema.ts` ajv): it takes types from `contract.ts`, and `canonical-json.ts`, `pointer.ts` and `template.ts`
 * one by one, which need nothing.
 */
export { canonicalJson, JSON_DEPTH_MAX, sameJson } from './canonical-json.ts';
export { fillCapabilities, fillResources, grantCovers, uncovered } from './capability.ts';
export {
  ANSWER_MEANINGS,
  type AnswerMeaning,
  type AnswerPattern,
  type AnswerRule,
  CONTRACT_LAYERS,
  type Contract,
  type ContractLayer,
  type ContractRef,
  type Digest,
  EFFECT_CLASSES,
  type EffectClass,
  type EvidenceRule,
  type Execution,
  type HttpExecution,
  type JsonObject,
  type JsonSchema,
  type JsonValue,
  type MailExecution,
  type McpExecution,
  type Transport,
} from './contract.ts';
export { contractFromSource, parseContractFile } from './contract-file.ts';
export { formatContractRef, isToolName, isVersion, parseContractRef } from './contract-ref.ts';
export { nearest } from './did-you-mean.ts';
export { digestBytes, digestFromBytes, isDigest, sha256Bytes, sha256Hex, sha256v1 } from './digest.ts';
export { effectiveClass } from './effective-class.ts';
export { compileSchema, type SchemaCheck, type SchemaProblem, type SchemaVerdict } from './json-schema.ts';
export { getPointer, isPointer, pointerOf } from './pointer.ts';
export {
  type Encoder,
  type Placeholder,
  renderJson,
  renderJsonOptional,
  renderText,
  type Scope,
  templatePlaceholders,
} from './template.ts';
export { DURATION_MS_MAX, parseDuration, parseSize } from './units.ts';
