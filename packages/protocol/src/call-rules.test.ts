import { describe, expect, it } from 'vitest'
import { CALL_RULES, findStateRefusal, findUsefulPermissions } from './call-rules.js'
import { KEY_STATUSES } from './routes.js'

describe('the table of key states', () => {
  it('lists the states of each call in the order of KEY_STATUSES, which the refusing sentence repeats', () => {
    const rules = Object.values(CALL_RULES).flatMap(({ key }) => key ?? [])
    expect(rules.length).toBeGreaterThan(10)
    for (const { states } of rules) {
      expect(states).toEqual(KEY_STATUSES.filter((status) => (states as readonly string[]).includes(status)))
    }
  })

  it('opens what a disabled key protected, and protects nothing new with it', () => {
    expect(findStateRefusal('unwrap', 'disabled')).toBeUndefined()
    expect(findStateRefusal('wrap', 'disabled')).toEqual({
      code: 'E_STATE',
      detail: 'the key is disabled: to wrap it must be active',
    })
  })

  it('refuses with a code of its own what was destroyed', () => {
    expect(findStateRefusal('unwrap', 'destroyed')?.code).toBe('E_KEY_DESTROYED')
    expect(findStateRefusal('cancelDestruction', 'destroyed')?.code).toBe('E_KEY_DESTROYED')
    expect(findStateRefusal('getKey', 'destroyed')).toBeUndefined()
  })

  it('leaves the permissions that do something in each state', () => {
    expect(Object.fromEntries(KEY_STATUSES.map((status) => [status, findUsefulPermissions(status)]))).toEqual({
      active: [
        ...['wrap', 'encrypt', 'hash', 'unwrap', 'decrypt'],
        ...['keys:read', 'keys:rotate', 'keys:disable', 'keys:destroy', 'keys:export'],
      ],
      disabled: ['unwrap', 'decrypt', 'keys:read', 'keys:rotate', 'keys:disable', 'keys:destroy', 'keys:export'],
      pending_destruction: ['keys:read', 'keys:destroy'],
      destroyed: ['keys:read'],
    })
  })
})
