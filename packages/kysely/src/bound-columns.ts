/**
 * Adds the columns that encrypted ones are bound to, if a query leaves them out. They get names of their own, and
 * are removed from the rows once these are opened.
 */
import { namesInSql } from '@eaas/sdk/adapter'
import { AliasNode, ColumnNode, IdentifierNode, ReferenceNode, SelectionNode, TableNode } from 'kysely'
import { isNode, type Node, rawText } from './nodes.js'
import { columnsByInstance, instanceOf } from './results.js'
import type { Instance, Output, Scope } from './scope.js'
import type { Selections } from './selections.js'

/**
 * Tells whether columns can be added: not to a query that compares its rows with each other or with another query's.
 */
export function takesColumns(query: Node): boolean {
  return !isDistinct(query) && !query.groupBy && !query.setOperations && !query.distinctOn
}

/** Tells whether whole rows of a query are compared with each other. */
export function isDistinct(query: Node): boolean {
  return ((query.frontModifiers as readonly Node[]) ?? []).some(({ modifier, rawModifier }) => {
    const words = isNode(rawModifier) ? namesInSql(rawText(rawModifier)).map(({ name }) => name) : []
    return modifier === 'Distinct' || words.some((word, at) => word === 'distinct' && words[at + 1] !== 'on')
  })
}

export function addBound(scope: Scope, { nodes, outputs, places }: Selections): Selections {
  const added: { node: Node; output: Output }[] = []
  for (const [instance, columns] of columnsByInstance(outputs)) {
    for (const column of instance.table.readsToo(columns)) {
      const at = findColumn(scope, instance, column)
      if (!at) continue // refused by assertReadable
      const name = `eaas_bound_${added.length}`
      const reference = ReferenceNode.create(ColumnNode.create(at.column), TableNode.create(at.alias))
      const node = SelectionNode.create(AliasNode.create(reference, IdentifierNode.create(name)) as never)
      added.push({ node: node as unknown as Node, output: { name, source: { instance, column }, isHidden: true } })
    }
  }
  return {
    nodes: [...nodes, ...added.map(({ node }) => node)],
    outputs: [...outputs, ...added.map(({ output }) => output)],
    places,
  }
}

/** Finds a column of an instance by the name that a relation of the query gives it. */
function findColumn(scope: Scope, instance: Instance, column: string): { alias: string; column: string } | undefined {
  for (let at: Scope | undefined = scope; at; at = at.outer) {
    for (const [alias, relation] of at.own) {
      for (const output of relation?.outputs ?? []) {
        if ('inner' in output || instanceOf(output) !== instance) continue
        if ('all' in output) return { alias, column }
        if (output.source.column === column) return { alias, column: output.name }
      }
    }
  }
  return undefined
}
