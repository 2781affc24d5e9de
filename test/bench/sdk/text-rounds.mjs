// Texts there and back by each peer, interleaved, in Node and in a page. `clock` says the milliseconds that are measured.

const SIZES = [32, 256, 4_096, 65_536]

/** µs an operation, by peer, size and direction. */
export async function measureText(peers, options) {
  const measured = {}
  for (const size of SIZES) {
    const value = 'Ada Lovelace, 12 St James Square '.repeat(Math.ceil(size / 32)).slice(0, size)
    const cases = {}
    for (const [name, { encrypt, decrypt }] of Object.entries(peers)) {
      const sealed = await encrypt(value)
      if ((await decrypt(sealed)) !== value) throw new Error(`${name} does not give back what it was given`)
      cases[`${name}/encrypt`] = () => encrypt(value)
      cases[`${name}/decrypt`] = () => decrypt(sealed)
    }
    measured[size] = await interleave(cases, options)
  }
  return measured
}

/** So many times a round's length, a case runs before it is measured, so that V8 has optimised it. */
const WARM_UP = 10

/** Each case once a round; how often a case runs in it is found out first. */
async function interleave(cases, { rounds, targetMs, clock }) {
  const names = Object.keys(cases)
  const times = {}
  for (const name of names) {
    times[name] = await timesFor(cases[name], targetMs, clock)
    await costOf(cases[name], times[name] * WARM_UP, clock)
  }
  const measured = Object.fromEntries(names.map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < names.length; at++) {
      const name = names[(at + round) % names.length]
      measured[name].push(((await costOf(cases[name], times[name], clock)) * 1_000) / times[name])
    }
  }
  return measured
}

async function timesFor(task, targetMs, clock) {
  let times = 1
  for (;;) {
    const took = await costOf(task, times, clock)
    if (took >= targetMs) return times
    times = Math.ceil(took < targetMs / 10 ? times * 8 : (times * targetMs * 1.1) / took)
  }
}

async function costOf(task, times, clock) {
  const before = clock()
  for (let at = 0; at < times; at++) await task()
  return clock() - before
}
