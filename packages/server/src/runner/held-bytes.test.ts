// The memory that calls hold: how much a tenant and all of them may, and that it is given back.
import { describe, expect, it } from 'vitest'
import { createHeldBytes } from './held-bytes.js'

const refused = expect.objectContaining({ code: 'E_UNAVAILABLE' })

describe('what calls hold', () => {
  it('is no more than a tenant may, in however many calls, and leaves room for the others', () => {
    const hold = createHeldBytes({ ofProcess: 100, ofTenant: 40, ofApiKey: 40 })
    const [first, second] = [hold('a', 'a 1'), hold('a', 'a 1')]
    first.take(30)
    second.take(10)
    expect(() => second.take(1)).toThrow(refused)
    expect(() => hold('a', 'a 1').take(1)).toThrow(refused)
    hold('b', 'b 1').take(40)
  })

  it('is no more than an API key may, and leaves room for the other API keys of its tenant', () => {
    const hold = createHeldBytes({ ofProcess: 100, ofTenant: 40, ofApiKey: 30 })
    hold('a', 'a 1').take(30)
    expect(() => hold('a', 'a 1').take(1)).toThrow(refused)
    hold('a', 'a 2').take(10)
    expect(() => hold('a', 'a 2').take(1)).toThrow(refused)
  })

  it('is no more than a process may', () => {
    const hold = createHeldBytes({ ofProcess: 100, ofTenant: 40, ofApiKey: 40 })
    for (const tenant of ['a', 'b']) hold(tenant, `${tenant} 1`).take(40)
    const last = hold('c', 'c 1')
    last.take(20)
    expect(() => last.take(1)).toThrow(refused)
    expect(() => hold('d', 'd 1').take(1)).toThrow(refused)
  })

  it('is given back once, all of it, and a call that is over holds no more', () => {
    const hold = createHeldBytes({ ofProcess: 100, ofTenant: 40, ofApiKey: 40 })
    const call = hold('a', 'a 1')
    call.take(25)
    call.take(15)
    call.end()
    call.end()
    call.add(40)
    call.take(40)
    const next = hold('a', 'a 1')
    next.take(40)
    expect(() => next.take(1)).toThrow(refused)
  })

  it('may be more for an answer that can no longer be refused, which the next calls wait for', () => {
    const hold = createHeldBytes({ ofProcess: 100, ofTenant: 40, ofApiKey: 40 })
    const call = hold('a', 'a 1')
    call.add(60)
    expect(() => hold('a', 'a 1').take(1)).toThrow(refused)
    call.end()
    hold('a', 'a 1').take(40)
  })
})
