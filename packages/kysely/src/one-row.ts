/**
 * Checks that an update changes only the row that its values are sealed to: any other row could never be opened again.
 * Trusts only SQL that Kysely writes. SQL as text, and names of functions, can hold an `or` without parentheses.
 */
import { InvalidInputError } from '@eaas/sdk'
import { isClosedSql, isOneSqlValue, type Row, refuseCall } from '@eaas/sdk/adapter'
import { columnName, isNode, type Node, operatorOf, qualifierOf, rawText } from './nodes.js'

/**
 * Finds the values that a condition gives for the rows of a table: `id = 7`, alone or joined by `and`. If the query has
 * no other table, a column needs no qualifier.
 */
export function pinnedBy(alias: string, isOnly: boolean, node: Node | undefined): Row {
  if (!node) return {}
  const next = (inner: unknown) => pinnedBy(alias, isOnly, inner as Node)
  if (node.kind === 'WhereNode') return next(node.where)
  if (node.kind === 'ParensNode') return next(node.node)
  if (node.kind === 'AndNode') return { ...next(node.left), ...next(node.right) }
  if (node.kind !== 'BinaryOperationNode' || operatorOf(node) !== '=') return {}
  const column = columnName(node.leftOperand as Node)
  const qualifier = qualifierOf(node.leftOperand as Node)
  const value = node.rightOperand as Node
  const isPinned = value.kind === 'ValueNode' && (qualifier === undefined ? isOnly : qualifier === alias)
  return column !== undefined && isPinned ? { [column]: value.value } : {}
}

/** Nodes whose SQL Kysely writes, with quoted names and values as parameters. */
const PROVEN = new Set(
  `Alias And BinaryOperation Column From Identifier Join Limit Offset On Operator Or Parens PrimitiveValueList Reference SchemableIdentifier
   SelectAll Selection SelectQuery Table Tuple UnaryOperation Value ValueList Where`
    .split(/\s+/)
    .map((name) => `${name}Node`),
)
/** Operators that bind closer than `and` in every database. `||` is missing: MySQL takes it for `or`. */
const OPERATORS =
  '=|==|!=|<>|<|<=|>|>=|+|-|*|/|%|in|not in|is|is not|like|not like|ilike|not ilike|between|exists|not exists|not|is distinct from|is not distinct from'.split(
    '|',
  )

export function isOneRow(update: Node): boolean {
  return isProven(update.where, 'WhereNode')
}

/** @throws InvalidInputError when an update may change other rows than its condition seems to name */
export function assertOneRow(table: string, update: Node): void {
  if (!isOneRow(update))
    throw new InvalidInputError(
      `${table}: the adapter cannot tell that it is about one row, to which the encrypted values are bound`,
      'Write the condition without SQL as text and without functions, or select the ids first and update by them.',
    )
  for (const [member, part] of Object.entries(update)) {
    if (['where', 'updates', 'returning'].includes(member)) continue
    assertText(part, member === 'with' ? isClosedSql : () => false)
  }
}

/** Refuses SQL as the value of a column that could set another column, or change another row. */
export function assertValuesInSql(updates: readonly Node[]): void {
  for (const { value } of updates) assertText(value, isOneSqlValue)
}

function isProven(part: unknown, parent: string): boolean {
  if (Array.isArray(part)) return part.every((one) => isProven(one, parent))
  if (!isNode(part)) return true
  if (!PROVEN.has(part.kind)) return false
  if (part.kind === 'OrNode' && !['ParensNode', 'WhereNode', 'OnNode', 'OrNode'].includes(parent)) return false
  if (part.kind === 'OperatorNode' && !OPERATORS.includes(String(part.operator))) return false
  return Object.values(part).every((one) => isProven(one, part.kind))
}

function assertText(part: unknown, isAllowed: (text: string) => boolean, isInside = false): void {
  if (Array.isArray(part)) for (const one of part) assertText(one, isAllowed, isInside)
  if (!isNode(part)) return
  const isText = part.kind === 'RawNode'
  const isAllowedHere = isText
    ? isInside || isAllowed(rawText(part))
    : /^[\p{L}\p{N}_.$]*$/u.test(String(part.func ?? ''))
  if (!isAllowedHere) {
    const hint = 'Of a column that is set, its value may be SQL: one value, without a comment.'
    refuseCall('SQL as text in an update, from which its rows are not clear,', hint)
  }
  assertText(Object.values(part), isAllowed, isText)
}
