/**
 * What the backfill needs of a model beyond its interface. Kept apart from it, so that no program can reach
 * it by the model.
 */
import { InvalidInputError } from '../errors.js'
import type { Definition } from './definition.js'
import type { ModelDeps } from './model-deps.js'
import type { ModelRows } from './model-rows.js'

export interface ModelInternals {
  definition: Definition
  /** Makes the functions that seal and open rows of the definition, or of one that was made of it. */
  load(some?: Definition): Promise<{ rows: ModelRows; deps: ModelDeps }>
}

const known = new WeakMap<object, ModelInternals>()

export function keepInternals<M extends object>(model: M, internals: ModelInternals): M {
  known.set(model, internals)
  return model
}

/** Returns undefined for what is not a model of this copy of the SDK. */
export function findInternals(model: unknown): ModelInternals | undefined {
  return known.get(model as object) // undefined for what is no object, too
}

/** @throws InvalidInputError when it is not a model of this copy of the SDK */
export function getInternals(model: unknown): ModelInternals {
  const internals = findInternals(model)
  if (internals) return internals
  throw new InvalidInputError(
    'expected a model, made by model() of a client of this copy of @eaas/sdk: `import` and `require` load one each',
    'Pass such a model, and load the entries of @eaas/sdk all by `import`, or all by `require`.',
  )
}
