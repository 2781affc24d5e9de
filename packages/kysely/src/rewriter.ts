/**
 * How the parts of a query are rewritten that stand inside others: `rewrite.ts` makes it for the files that
 * it calls.
 */
import type { Node } from './nodes.js'
import type { Output, Scope } from './scope.js'
import type { Spellings } from './spellings.js'
import type { Models } from './tables.js'

/** A rewritten query, and what it returns. */
export interface Rewritten {
  node: Node
  outputs: readonly Output[]
}

export interface Rewriter {
  models: Models
  spellings: Spellings
  /** Rewrites a query. `outer` is the scope of the query around it. */
  query(node: Node, outer: Scope | undefined): Promise<Rewritten>
  /** Rewrites a condition or an expression. */
  expression(node: Node, scope: Scope): Promise<Node>
}
