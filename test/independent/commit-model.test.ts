// Every order in which two servers can decide, commit and release, with a crash and a lost answer anywhere (commit-model.ts).
import { describe, expect, it } from 'vitest'
import { type Bounds, GUARDS, type Guards, initialState, type State, search, stepsFrom } from './commit-model.js'

const isOver = (phase: string) => ['acked', 'refused', 'failed'].includes(phase)

/** What a search must have met: without it, the rules would hold because nothing happened. */
function observe({ calls, log, servers }: State): string[] {
  const names = []
  const revoke = calls.findIndex(({ kind }) => kind === 'revoke')
  const isIn = (at: number) => log.some(({ call }) => call === at)
  for (const [at, { kind, phase, locked, server, outcome }] of calls.entries()) {
    if (kind !== 'wrap') continue
    if (phase === 'failed') names.push(isIn(at) ? 'failed, with an entry' : 'failed, without an entry')
    if (phase === 'acked' && locked) names.push('committed in its turn')
    if (phase === 'acked' && calls[revoke]?.server !== server && isIn(revoke)) names.push('revoked by the other server')
    if (phase === 'refused' && isIn(revoke)) names.push('refused after the revocation')
    if (outcome === 'lost race') names.push('lost the race')
    if (phase === 'acked' && log.findIndex(({ call }) => call === at) > 1) names.push('after a change and another wrap')
  }
  if (servers.some(({ up }) => !up)) names.push('a server is down')
  return names
}

describe('every order of two servers’ steps', () => {
  const bounds: [string, Bounds][] = [
    ['two wraps and a revocation, with a crash and a lost answer', { wraps: 2, crashes: 1, losses: 1 }],
    ['a wrap, a revocation and its end, with two crashes', { wraps: 1, enables: true, crashes: 2, losses: 0 }],
    ['a wrap, a revocation and its end, with two lost answers', { wraps: 1, enables: true, crashes: 0, losses: 2 }],
  ]

  const met = new Set<string>()

  it.each(bounds)('keeps the rules: %s', (_, bounds) => {
    const { states, violation, ends } = search(bounds, GUARDS, (state) => {
      for (const name of observe(state)) met.add(name)
    })
    expect(violation).toBeUndefined()
    expect(states).toBeGreaterThan(1_000)
    // Nothing waits for ever: each call that arrived has ended, unless the server that sent its statement is dead.
    const waiting = ends.filter(({ calls }) =>
      calls.some(({ phase, orphan, kind }) => !isOver(phase) && !orphan && !(phase === 'new' && kind === 'enable')),
    )
    expect(waiting).toEqual([])
  })

  it('meets what it is meant to: races, refusals, crashes, entries that nobody was told of', () => {
    expect([...met].sort()).toEqual([
      'a server is down',
      'after a change and another wrap',
      'committed in its turn',
      'failed, with an entry',
      'failed, without an entry',
      'lost the race',
      'refused after the revocation',
      'revoked by the other server',
    ])
  })
})

describe('without a guard, the search finds the way to the damage', () => {
  const damage: [keyof Guards, string][] = [
    ['comparesHead', 'ids with a gap, or twice'],
    ['comparesPolicy', 'a use after the revocation'],
    ['releasesAfterCommit', 'released without an entry'],
    ['unknownIsFailure', 'released without an entry'],
    ['raisesPolicy', 'a use after the revocation'],
    ['writesTogether', 'a head that is not the end of the log'],
    ['refusesOnCurrent', 'refused although it was allowed'],
  ]

  it('for each of them', () => {
    expect(damage.map(([guard]) => guard).sort()).toEqual(Object.keys(GUARDS).sort())
  })

  it.each(damage)('%s: %s', (guard, what) => {
    const bounds = { wraps: 1, enables: guard === 'refusesOnCurrent', crashes: 1, losses: 1 }
    expect(search(bounds, GUARDS).violation).toBeUndefined()
    const guards = { ...GUARDS, [guard]: false }
    const { violation } = search(bounds, guards)
    expect(violation?.what).toBe(what)
    // The way can be walked: each of its steps is one that the model has there.
    let reached = [initialState(bounds)]
    for (const step of violation?.way ?? []) {
      reached = reached.flatMap((state) =>
        stepsFrom(state, guards).flatMap(([name, next]) => (name === step ? [next] : [])),
      )
    }
    expect(reached.length).toBeGreaterThan(0)
  })
})
