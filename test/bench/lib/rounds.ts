// Interleaved rounds: in each one, every case runs once, so that whatever slows the machine slows all of them.

export interface Spread {
  median: number
  min: number
  max: number
}

export type Cases = Readonly<Record<string, () => number | Promise<number>>>
/** What each case measured, round by round. */
export type Measured<C> = { readonly [Name in keyof C]: number[] }

/** Waits until the other tasks have come to their next turn, or ended. */
export type Turn = () => Promise<void>

/** Runs tasks that never work at the same time: at each of its turns, one waits for all others to get to theirs. */
export function takeTurns<T>(tasks: readonly ((turn: Turn) => Promise<T>)[]): Promise<T[]> {
  const waiting: (() => void)[] = []
  const turn = async () => {
    const mine = new Promise<void>((resolve) => waiting.push(resolve))
    waiting.shift()?.()
    await mine
  }
  const results = tasks.map(async (task, at) => {
    if (at > 0) await new Promise<void>((resolve) => waiting.push(resolve))
    const result = await task(turn)
    waiting.shift()?.() // after an error the others stay where they are
    return result
  })
  return Promise.all(results)
}

/**
 * Runs each case once per round, in an order that turns by one with each round, after one round that does not count. `turn` is
 * awaited before each case.
 */
export async function interleave<C extends Cases>(
  cases: C,
  { rounds, warmUp = true, turn }: { rounds: number; warmUp?: boolean; turn?: Turn },
): Promise<Measured<C>> {
  const names = Object.keys(cases)
  const measured = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<string, number[]>
  for (let round = warmUp ? -1 : 0; round < rounds; round++) {
    for (let at = 0; at < names.length; at++) {
      const name = names[(at + Math.max(0, round)) % names.length] as string
      await turn?.()
      const value = await cases[name]?.()
      if (round >= 0 && value !== undefined) measured[name]?.push(value)
    }
  }
  return measured as Measured<C>
}

/** The median, and the least and the most. */
export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  const median = sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
  return { median, min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN }
}

/** The ratio of two cases, taken round by round. */
export function ratios(values: readonly number[], against: readonly number[]): number[] {
  return values.map((value, at) => value / (against[at] ?? Number.NaN))
}
