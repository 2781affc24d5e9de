import { describe, expect, it } from 'vitest'
import { findChanged } from './triggers.js'

const body = (statement: string) => `begin\n  ${statement}\n  return new;\nend`

describe('the text of a trigger', () => {
  it.each([
    ['new.email := lower(new.email);'],
    ['NEW."email" = lower(new.email);'],
    ['if new.city is null then new.email = null; end if;'],
    ['select lower(new.email) into new.email;'],
    ["raise notice 'it''s'; -- '\n new.email/* ; */:= 'x';"],
  ])('changes the column in %s', (statement) => {
    expect(findChanged(body(statement), ['email'])).toBe('email')
  })
  it.each([
    ['if new.email = old.email then raise exception $$same$$; end if;'],
    ['new.city := lower(new.email);'],
    ['-- new.email := 1'],
    ["perform pg_notify('x', 'new.email := 1');"],
    ['old.email := new.email;'],
  ])('changes nothing in %s', (statement) => {
    expect(findChanged(body(statement), ['email'])).toBe(undefined)
  })
})
