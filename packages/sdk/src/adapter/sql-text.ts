/** Finds the names in SQL text. It is read as words, without a grammar: anything unclear counts as named. */
import { clearReadings, isName, isSign, readings, type Token } from './sql-tokens.js'

/** A name in SQL text, in lower case and without quotes, since databases fold case, each in its own way. */
export interface Mention {
  /** `*` where it stands for all columns. */
  name: string
  qualifier: string | undefined
  isQualifier: boolean
  isCall: boolean
  /** Whether it is only counted, as in `count(email)`: null is stored as null, so the count is right. */
  isCounted: boolean
  /** Whether it stands where a query lists its tables, as after `from`. */
  isTable: boolean
}

/** Lists the names in SQL text, including keywords. @throws InvalidInputError if quotes in it are unclear */
export function namesInSql(text: string): Mention[] {
  const lists = clearReadings(text).map((tokens) => mentionsIn(tokens))
  const distinct = new Map(lists.map((mentions) => [JSON.stringify(mentions), mentions]))
  return [...distinct.values()].flat()
}

export function mentionsIn(given: readonly Token[]): Mention[] {
  const tokens = given.filter(({ kind }) => kind !== 'comment')
  const among = areAmongTables(tokens)
  return tokens.flatMap((token, at) => {
    if (!isName(token) && !isAllColumns(tokens, at)) return []
    const [before, after] = [tokens[at - 1], tokens[at + 1]]
    if (isSign(before, ':') && isSign(tokens[at - 2], ':')) return [] // a type
    const qualifier = isSign(before, '.') ? tokens[at - 2] : undefined
    return [
      {
        name: token.text,
        qualifier: isName(qualifier) ? qualifier?.text : undefined,
        isQualifier: isSign(after, '.'),
        isCall: isSign(after, '('),
        isCounted: isCounted(tokens, at),
        isTable: among[at] === true,
      },
    ]
  })
}

/** Tells whether a name stands for a whole row of the table of that name, and not for the table. */
export function isRowName({ qualifier, isQualifier, isCall, isTable }: Mention): boolean {
  return qualifier === undefined && !isQualifier && !isCall && !isTable
}

const BEFORE_ALL = new Set(['select', 'distinct', 'all', 'returning'])
const AFTER_ALL = new Set('from into where group having order limit offset fetch for union except intersect'.split(' '))

/** Tells whether a `*` stands for all columns: not in `count(*)`, and not between two factors. */
function isAllColumns(tokens: readonly Token[], at: number): boolean {
  const [before, after] = [tokens[at - 1], tokens[at + 1]]
  if (!isSign(tokens[at], '*') || isSign(before, '(')) return false
  if (!before || !after || isSign(before, '.') || isSign(before, ',')) return true
  if (before.kind === 'word' && BEFORE_ALL.has(before.text)) return true
  return after.kind === 'word' ? AFTER_ALL.has(after.text) : [',', ';', ')'].some((sign) => isSign(after, sign))
}

function isCounted(tokens: readonly Token[], at: number): boolean {
  let first = at
  while (isSign(tokens[first - 1], '.') && isName(tokens[first - 2])) first -= 2
  const isCall = isSign(tokens[first - 1], '(') && tokens[first - 2]?.text === 'count'
  return isCall && isSign(tokens[at + 1], ')')
}

/** Tells whether SQL text closes its quotes and parentheses and has no comment, so that it cannot change what follows. */
export function isClosedSql(text: string): boolean {
  return outermost(text) !== undefined
}

const CLAUSES = new Set(
  `where from returning set order group having limit offset fetch union intersect except on using output option for
   window`.split(/\s+/),
)

/** Tells whether SQL text can only be one value: outside parentheses, it has no second value and no clause. */
export function isOneSqlValue(text: string): boolean {
  const isPart = (token: Token) =>
    (token.kind === 'word' && CLAUSES.has(token.text)) || isSign(token, ',') || isSign(token, ';')
  return outermost(text)?.some((tokens) => tokens.some(isPart)) === false
}

/** Returns the tokens outside parentheses, as each database reads them; undefined if that is unclear. */
function outermost(text: string): Token[][] | undefined {
  if (/\\|--|\/\*|#|\$\w*\$|u&/i.test(text)) return undefined
  const outer = readings(text).map(outsideOfParentheses)
  return outer.length > 0 && outer.every((tokens) => tokens !== undefined) ? outer : undefined
}

function outsideOfParentheses(tokens: readonly Token[]): Token[] | undefined {
  let depth = 0
  const outer: Token[] = []
  for (const token of tokens) {
    if (isSign(token, ')') && --depth < 0) return undefined
    if (depth === 0) outer.push(token)
    if (isSign(token, '(')) depth++
  }
  return depth === 0 ? outer : undefined
}

const LISTS = new Set(['rollup', 'cube', 'sets', 'on', 'by'])

/** Lists the positions, from 1, by which an `order by` or similar text names columns of a result. */
export function positionsInSql(text: string): number[] {
  return clearReadings(text).flatMap((given) => {
    const tokens = given.filter(({ kind }) => kind !== 'comment')
    const calls: boolean[] = []
    return tokens.flatMap((token, at) => {
      const [before, after] = [tokens[at - 1], tokens[at + 1]]
      if (isSign(token, '(')) calls.push(isName(before) && !LISTS.has(before?.text ?? ''))
      if (isSign(token, ')')) calls.pop()
      const isWhole = token.kind === 'word' && /^\d+$/.test(token.text) && !calls.includes(true)
      const begins = !before || before.text === 'by' || isSign(before, ',') || isSign(before, '(')
      const ends = !after || after.kind === 'word' || isSign(after, ',') || isSign(after, ')')
      return isWhole && begins && ends ? [Number(token.text)] : []
    })
  })
}

/** The words that start a query's list of tables, and those that end it. */
export const STARTS_TABLES = new Set('from join using update into only lateral'.split(' '))
export const ENDS_TABLES = new Set(
  `where group order having limit offset fetch union intersect except set values select returning for window
   with`.split(/\s+/),
)

/** `call` is inside the parentheses of a function, such as `trim(both from name)`. */
type State = 'tables' | 'on' | 'call' | undefined

/** Tells for each token whether it is in a query's list of tables, as between `from` and `where`. */
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

/** Words before parentheses that are not a function's. */
const IN_FRONT = new Set('as in exists select and or not any all some where on when then else'.split(' '))

function after(word: string, before: Token | undefined, state: State): State {
  if (STARTS_TABLES.has(word)) return state === 'call' || before?.text === 'distinct' ? state : 'tables'
  if (word === 'on' && state === 'tables') return 'on'
  return ENDS_TABLES.has(word) ? undefined : state
}
