/** Where SQL names the tables of a query, rather than values. */
import { isName, isSign, type Token } from './sql-tokens.js'

export const STARTS_TABLES = new Set('from join using update into only lateral'.split(' '))
export const ENDS_TABLES = new Set(
  'where group order having limit offset fetch union intersect except set values select returning for window with'.split(
    ' ',
  ),
)

/** `call` is inside the parentheses of a function, such as `trim(both from name)`. */
type State = 'tables' | 'on' | 'call' | undefined

/** Tells of each token whether it is among the tables of a query, as between `from` and `where`. */
export function areAmongTables(tokens: readonly Token[]): boolean[] {
  const outer: State[] = []
  let state: State
  return tokens.map((token, at) => {
    if (isSign(token, '(')) {
      outer.push(state)
      if (isCall(tokens[at - 1])) state = 'call'
    } else if (isSign(token, ')')) state = outer.pop()
    else if (isSign(token, ',') && state === 'on') state = 'tables'
    else if (token.kind === 'word') state = after(token.text, tokens[at - 1], state)
    return state === 'tables'
  })
}

function isCall(before: Token | undefined): boolean {
  return isName(before) && !(before?.kind === 'word' && (STARTS_TABLES.has(before.text) || IN_FRONT.has(before.text)))
}

/** Words before parentheses that are no function. */
const IN_FRONT = new Set('as in exists select and or not any all some where on when then else'.split(' '))

function after(word: string, before: Token | undefined, state: State): State {
  if (STARTS_TABLES.has(word)) return state === 'call' || before?.text === 'distinct' ? state : 'tables'
  if (word === 'on' && state === 'tables') return 'on'
  return ENDS_TABLES.has(word) ? undefined : state
}
