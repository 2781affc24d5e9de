import type { Key } from '@eaas/sdk'
import { afterEach, describe, expect, it } from 'vitest'
import { readKeys, writeKeys } from './listed-keys.js'
import { findKeyId, keys } from './session.js'

const ID = '0a1b2c3d-0000-4000-8000-000000000001'
const OTHER = '0a1b2c3d-0000-4000-8000-000000000002'

afterEach(() => {
  keys.value = new Map()
})

function haveKeys(...named: [id: string, name: string][]): void {
  keys.value = new Map(named.map(([id, name]) => [id, { id, name } as Key]))
}

describe('a key', () => {
  it('is found by its name', () => {
    haveKeys([ID, 'users'])
    expect(findKeyId('users')).toBe(ID)
    expect(findKeyId('nobody')).toBe('nobody')
  })

  it('does not take the place of another one whose id is its name', () => {
    haveKeys([OTHER, ID], [ID, 'users'])
    expect(findKeyId(ID)).toBe(ID)
    haveKeys([OTHER, ID]) // also of one that the list does not have
    expect(findKeyId(ID)).toBe(ID)
  })

  it('does not take the place of a folder that is its name', () => {
    haveKeys([ID, 'customers/*'])
    expect(findKeyId('customers/*')).toBe('customers/*')
  })
})

describe('the keys of a form', () => {
  it.each([
    '"team/*,prod/*,team/*",users',
    'users,"team/*,prod/*,team/*"',
    '["prod/*"]',
    '"team/*,prod/*',
    '"prod/*" '.repeat(2),
  ])('are refused where a line has more than one text in quotes, of which a part would be a folder: %s', (line) => {
    haveKeys([ID, 'users'], [OTHER, 'team/*"'])
    expect(() => readKeys(`users\n${line}`)).toThrow('one a line')
  })

  it('are names, ids and folders, one a line or with commas between', () => {
    haveKeys([ID, 'users'])
    expect(readKeys(` users , ${OTHER}\r\n\ncustomers/*`)).toEqual([ID, OTHER, 'customers/*'])
    expect(readKeys(' \n')).toEqual([])
  })

  it('are shown by their names where they are known', () => {
    haveKeys([ID, 'users'])
    expect(writeKeys([ID, OTHER, 'customers/*'])).toBe(`users\n${OTHER}\ncustomers/*`)
    expect(writeKeys([])).toBe('')
  })

  it.each(['team/*,prod/*', 'team/*\nprod/*', 'team/*\rprod/*', 'prod/*', ' prod/* ', '"prod/*"', ' ', ',', OTHER])(
    'are the same when they are read, whatever somebody named one: %j',
    (name) => {
      haveKeys([ID, name], [OTHER, 'prod'])
      expect(readKeys(writeKeys([ID, OTHER]))).toEqual([ID, OTHER])
      expect(writeKeys([ID])).toBe(ID)
    },
  )

  it.each(['team/*,prod/*', 'team/*\nprod/*', 'team/*\rprod/*', ' prod/*', '"prod/*', '"a", "b/*', '\ud800/*'])(
    'are the same when they are read, whatever a folder is called: %j',
    (folder) => {
      haveKeys([ID, 'prod/*'])
      const shown = writeKeys([folder, ID])
      // As a field of several lines gives it back.
      expect(readKeys(shown.replace(/\r\n?/g, '\n'))).toEqual([folder, ID])
    },
  )
})
