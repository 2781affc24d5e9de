import { describe, expect, it } from 'vitest'
import { OverloadError } from '../audit/append-errors.js'
import { createWorkGate } from './work-gate.js'

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('the gate of batches', () => {
  it('lets some work at once, and the next when one leaves', async () => {
    const gate = createWorkGate({ runningOperations: 20 })
    const leaves = [await gate.enter('a', 10), await gate.enter('a', 10)]
    const begun: string[] = []
    const third = gate.enter('a', 10).then((leave) => {
      begun.push('third')
      return leave
    })
    await settled()
    expect(begun).toEqual([])
    leaves[0]?.()
    leaves[0]?.() // leaving twice makes no room twice
    await third
    const fourth = gate.enter('a', 10).then(() => begun.push('fourth'))
    await settled()
    expect(begun).toEqual(['third'])
    leaves[1]?.()
    await fourth
  })

  it('gives tenants their turns, however many batches one of them has waiting', async () => {
    const gate = createWorkGate({ runningOperations: 10 })
    const leave = await gate.enter('a', 10)
    const order: string[] = []
    const wait = (tenant_id: string) =>
      gate.enter(tenant_id, 10).then((leave) => {
        order.push(tenant_id)
        leave()
      })
    const all = ['a', 'a', 'a', 'b', 'b'].map(wait)
    leave()
    await Promise.all(all)
    expect(order).toEqual(['b', 'a', 'b', 'a', 'a'])
  })

  it('begins the batch of a new tenant before another one of the tenant that runs, each time', async () => {
    const gate = createWorkGate({ runningOperations: 10 })
    let leave = await gate.enter('a', 10)
    const order: string[] = []
    const wait = (tenant_id: string) =>
      gate.enter(tenant_id, 10).then((begun) => {
        order.push(tenant_id)
        leave = begun
      })
    const flood = Array.from({ length: 3 }, () => wait('a'))
    for (let round = 0; round < 3; round++) {
      const fair = wait('b')
      leave()
      await fair
      leave()
      await flood[round]
    }
    expect(order).toEqual(['b', 'a', 'b', 'a', 'b', 'a'])
  })

  it('lets a batch that is larger than all room work alone, and small ones do not pass it', async () => {
    const gate = createWorkGate({ runningOperations: 10 })
    const first = await gate.enter('a', 5)
    const order: string[] = []
    const large = gate.enter('b', 50).then((leave) => {
      order.push('large')
      leave()
    })
    const small = gate.enter('c', 1).then(() => order.push('small'))
    await settled()
    expect(order).toEqual([])
    first()
    await Promise.all([large, small])
    expect(order).toEqual(['large', 'small'])
  })

  it('lets small work begin once a large batch before it has waited in vain', async () => {
    const gate = createWorkGate({ runningOperations: 10, mostWaitMs: 50 })
    await gate.enter('a', 5)
    const large = gate.enter('b', 8)
    const small = gate.enter('c', 1)
    await expect(large).rejects.toThrow(OverloadError)
    await small
  })

  it('refuses at once what can not be begun in time, and says when to come back', async () => {
    let now = 0
    const gate = createWorkGate({ runningOperations: 1_000, mostWaitMs: 60_000, now: () => now })
    gate.assertRoom('a')
    const leave = await gate.enter('a', 1_000)
    now = 1_000
    leave() // 1,000 operations in a second: the rate is taken for (5,000 + 1,000) / 2 now
    const working = await gate.enter('a', 1_000)
    const waiting = Array.from({ length: 180 }, () => gate.enter('a', 1_000))
    const refused = await gate.enter('a', 1_000).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(OverloadError)
    expect(refused).toMatchObject({ retryAfterSeconds: 61 })
    expect(() => gate.assertRoom('a')).toThrow(OverloadError)
    working()
    for (const waiter of waiting) (await waiter)()
    expect(() => gate.assertRoom('a')).not.toThrow()
  })

  it('refuses a tenant for what begins before its batch, and not for all that another tenant has waiting', async () => {
    const gate = createWorkGate({ runningOperations: 1_000, mostWaitMs: 1_000, now: () => 0 }) // 5,000 in a second
    const running = await gate.enter('a', 1_000)
    const wait = async (tenant_id: string) => (await gate.enter(tenant_id, 1_000))()
    const waiting = Array.from({ length: 4 }, () => wait('a'))
    await expect(gate.enter('a', 1_001)).rejects.toThrow(OverloadError)
    gate.assertRoom('b')
    waiting.push(wait('b'), wait('b'))
    await expect(gate.enter('b', 1_000)).rejects.toThrow(OverloadError) // after three of a, and two of its own
    running()
    await Promise.all(waiting)
  })

  it('refuses what waited for too long, which then holds up nobody', async () => {
    const gate = createWorkGate({ runningOperations: 10, mostWaitMs: 20 })
    const leave = await gate.enter('a', 10)
    await expect(gate.enter('b', 10)).rejects.toThrow(OverloadError)
    leave()
    const again = await gate.enter('c', 10)
    again()
  })
})
