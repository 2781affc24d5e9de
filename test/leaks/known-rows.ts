// What an attacker learns who has a table with an index of parts and a list of everybody who may be in it, and knows
// whose some of the rows are, but has no key. A part always gives the same token, so rows that are known tell which
// tokens their parts may have. These tell which names other rows may have, and so on until all fit together.

const ROUNDS = 30
/** How often names and rows are weighed in turn, so that each name gets one row and each row one name. */
const BALANCES = 10
/** The chance that what was guessed so far is wrong. */
const DOUBT = 0.02
const RULED_OUT = -1e4

/** A list of lists of texts, as numbers. */
interface Numbered {
  lists: Uint32Array[]
  /** In how many lists each text is. */
  count: number[]
}

/** A table of numbers, line by line. */
interface Table {
  cells: Float64Array
  width: number
}

/**
 * Names the rows of a table: `rows` are the tokens of each, `names` the parts of each name on the list, `known` the
 * number of the row of some names. Returns the number of the row that each name is given.
 */
export function nameRows(
  rows: readonly (readonly string[])[],
  names: readonly (readonly string[])[],
  known: ReadonlyMap<number, number>,
): number[] {
  const tokens = numberEach(rows)
  const parts = numberEach(names)
  let belongs = balance(scoreKnown(tokens, parts, known), 1)
  for (let round = 1; round <= ROUNDS; round++) {
    const belief = Math.min(1, 0.2 + round / (ROUNDS * 0.75))
    const chance = learn(tokens, parts, belongs, belief)
    const scores = score(tokens, parts, chance)
    for (const [name, row] of known) pin(scores, name, row)
    belongs = balance(scores, belief)
  }
  return names.map((_, name) => {
    const line = lineOf(belongs, name)
    return line.indexOf(Math.max(...line))
  })
}

function numberEach(lists: readonly (readonly string[])[]): Numbered {
  const numbers = new Map<string, number>()
  const count: number[] = []
  const numberOf = (text: string) => {
    const number = numbers.get(text) ?? numbers.size
    numbers.set(text, number)
    count[number] = (count[number] ?? 0) + 1
    return number
  }
  return { lists: lists.map((list) => Uint32Array.from([...new Set(list)].map(numberOf))), count }
}

function createTable(height: number, width: number): Table {
  return { cells: new Float64Array(height * width), width }
}

function lineOf({ cells, width }: Table, line: number): Float64Array {
  return cells.subarray(line * width, (line + 1) * width)
}

/** A row has at most as many tokens as its name has parts. */
function scoreKnown(tokens: Numbered, parts: Numbered, known: ReadonlyMap<number, number>): Table {
  const scores = createTable(parts.lists.length, tokens.lists.length)
  for (const [name, list] of parts.lists.entries()) {
    const line = lineOf(scores, name)
    for (const [row, ofRow] of tokens.lists.entries())
      line[row] = ofRow.length > list.length ? RULED_OUT : -(list.length - ofRow.length)
  }
  for (const [name, row] of known) pin(scores, name, row)
  return scores
}

function pin(scores: Table, name: number, row: number): void {
  for (let at = row; at < scores.cells.length; at += scores.width) scores.cells[at] = RULED_OUT
  lineOf(scores, name).fill(RULED_OUT)[row] = 0
}

/** Makes chances of scores: each name belongs to one row, and each row to one name. */
function balance(scores: Table, belief: number): Table {
  const { width } = scores
  const cells = scores.cells.slice()
  const height = cells.length / width
  for (let name = 0; name < height; name++) {
    const line = cells.subarray(name * width, (name + 1) * width)
    const most = line.reduce((a, b) => Math.max(a, b))
    for (const [at, one] of line.entries()) line[at] = Math.exp((one - most) * belief)
  }
  const sums = new Float64Array(width)
  for (let round = 0; round < BALANCES; round++) {
    sums.fill(1e-300)
    for (let at = 0; at < cells.length; at++) sums[at % width] = (sums[at % width] ?? 0) + (cells[at] ?? 0)
    for (let at = 0; at < cells.length; at++) cells[at] = (cells[at] ?? 0) / (sums[at % width] ?? 1)
    for (let name = 0; name < height; name++) normalize(cells.subarray(name * width, (name + 1) * width))
  }
  return { cells, width }
}

function normalize(line: Float64Array): void {
  let sum = 1e-300
  for (let at = 0; at < line.length; at++) sum += line[at] ?? 0
  for (let at = 0; at < line.length; at++) line[at] = (line[at] ?? 0) / sum
}

/** The chance of each part to have each token: the token is in the row of every name that has the part. */
function learn(tokens: Numbered, parts: Numbered, belongs: Table, belief: number): Table {
  const width = tokens.count.length
  const chance = createTable(parts.count.length, width)
  const share = tokens.count.map((count) => count / tokens.lists.length)
  for (const [name, list] of parts.lists.entries()) {
    const has = new Float64Array(width)
    for (const [row, one] of lineOf(belongs, name).entries()) {
      if (one > 1e-4) for (const token of tokens.lists[row] ?? []) has[token] = (has[token] ?? 0) + one
    }
    for (let at = 0; at < width; at++)
      has[at] = belief * Math.log(((has[at] ?? 0) + DOUBT) / ((share[at] ?? 0) + DOUBT))
    for (const part of list) {
      const line = lineOf(chance, part)
      for (let at = 0; at < width; at++) line[at] = (line[at] ?? 0) + (has[at] ?? 0)
    }
  }
  for (const [part, least] of parts.count.entries()) {
    const line = lineOf(chance, part)
    for (let at = 0; at < width; at++) if ((tokens.count[at] ?? 0) < least) line[at] = (line[at] ?? 0) - 8
    const most = line.reduce((a, b) => Math.max(a, b))
    for (let at = 0; at < width; at++) line[at] = Math.exp((line[at] ?? 0) - most)
    normalize(line)
  }
  return chance
}

/** How well each row fits each name, as logarithms: each part has one token, and each token comes from a part. */
function score(tokens: Numbered, parts: Numbered, chance: Table): Table {
  const { width } = chance
  const fits = createTable(parts.count.length, tokens.lists.length)
  for (let part = 0; part < parts.count.length; part++) {
    const line = lineOf(fits, part)
    const own = lineOf(chance, part)
    for (const [row, list] of tokens.lists.entries()) {
      let sum = DOUBT
      for (const token of list) sum += own[token] ?? 0
      line[row] = Math.log(sum)
    }
  }
  const scores = createTable(parts.lists.length, tokens.lists.length)
  const explained = new Float64Array(width)
  for (const [name, list] of parts.lists.entries()) {
    explained.fill(DOUBT)
    for (const part of list) {
      const own = lineOf(chance, part)
      for (let at = 0; at < width; at++) explained[at] = (explained[at] ?? 0) + (own[at] ?? 0)
    }
    for (let at = 0; at < width; at++) explained[at] = Math.log(explained[at] ?? 1)
    const line = lineOf(scores, name)
    for (const part of list) {
      const own = lineOf(fits, part)
      for (let row = 0; row < line.length; row++) line[row] = (line[row] ?? 0) + (own[row] ?? 0)
    }
    for (const [row, ofRow] of tokens.lists.entries()) {
      if (ofRow.length > list.length) line[row] = RULED_OUT
      else for (const token of ofRow) line[row] = (line[row] ?? 0) + (explained[token] ?? 0)
    }
  }
  return scores
}
