/** Turns of the event loop: long work is done in stretches, between which other calls run. */

/** How long work goes on at a stretch, in milliseconds. A call waits for some four of them beside long work. */
const STRETCH_MS = 1

/** A turn of the event loop: what arrived meanwhile goes first. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

const waiting: (() => void)[] = []

/** A turn that no other long work has: however much of it goes on, other calls wait for one stretch at a time. */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(beginNext)
  })
}

function beginNext(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(beginNext)
}

/** Makes what long work calls between two steps: a turn to wait for where the stretch is over, else undefined. */
export function createStretches(): () => Promise<void> | undefined {
  let from = performance.now()
  return () => {
    if (performance.now() - from < STRETCH_MS) return undefined
    return ownTurn().then(() => {
      from = performance.now()
    })
  }
}

/** The results of a step for each item, made in stretches. */
export async function mapInStretches<Item, Result>(
  items: Iterable<Item>,
  step: (item: Item) => Result,
): Promise<Awaited<Result>[]> {
  const pause = createStretches()
  const results: Awaited<Result>[] = []
  for (const item of items) {
    const due = pause()
    if (due) await due
    const result = step(item)
    results.push(result instanceof Promise ? await result : (result as Awaited<Result>))
  }
  return results
}
