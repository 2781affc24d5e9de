/** Rewrites the parts inside of a query: `rewrite.ts` makes it for the files that it calls. */
import type { Row } from '@eaas/sdk/adapter'
import type { Node } from './nodes.js'
import type { Output, Scope } from './scope.js'
import type { Filtering } from './searches.js'
import type { Spellings } from './spellings.js'
import type { Models } from './tables.js'

/** A rewritten query, and what it returns. */
export interface Rewritten {
  node: Node
  outputs: readonly Output[]
  /** Which rows of the result match, if an index finds others too. */
  filtering?: Filtering | undefined
}

export interface Rewriter {
  models: Models
  spellings: Spellings
  /** The rows that the statement changes, if they were read before. */
  rows: readonly Row[]
  /** The sealed values of many rows: `from` of their update, which is not rewritten. */
  from?: Node
  /** Rewrites a query. `outer` is the scope of the query around it. */
  query(node: Node, outer: Scope | undefined): Promise<Rewritten>
  /** The same for a query whose rows go to the application: columns may be added to it. */
  result(node: Node, outer: Scope | undefined): Promise<Rewritten>
  /** Rewrites a condition or an expression. */
  expression(node: Node, scope: Scope): Promise<Node>
}
