import { afterAll, describe, expect, it } from 'vitest'
import { createClient, text } from '../index.js'
import { createTestService } from '../testing.js'
import { createSealedTable } from './sealed-table.js'
import { assertWritable, findChanged } from './triggers.js'

const of = (statement: string, timing: 'before' | 'after' = 'before') => ({
  relation: 'Guests',
  timing,
  source: statement.startsWith('declare') ? statement : `begin\n  ${statement}\n  return new;\nend`,
})

describe('the text of a trigger', () => {
  it.each([
    ['new.email := lower(new.email);'],
    ['NEW."email" = lower(new.email);'],
    ['if new.city is null then new.email = null; end if;'],
    ['select lower(new.email) into new.email;'],
    ["raise notice 'it''s'; -- '\n new.email/* ; */:= 'x';"],
    ['select lower(new.city), lower(new.email) into strict new.city, new.email;'],
    ['declare guest alias for new; begin guest.email := lower(guest.email); return guest; end'],
    ["new.email['ciphertext'] := to_jsonb(lower(new.email->>'ciphertext'));"],
    ["new := new #= hstore('email', lower(new.email));"],
    ["new = jsonb_populate_record(new, jsonb_build_object('Email', lower(new.email)));"],
    [
      "return json_populate_record(new, json_build_object(tg_argv[0], ''));; create trigger t execute function f('email')",
    ],
  ])('changes the column in %s', (statement) => {
    expect(findChanged(of(statement), ['email'])).toBe('email')
  })
  it.each([
    ['update guests set email = lower(email) where id = new.id;'],
    ['update only public."Guests" as g set city = lower(g.city), email = lower(g.email) where id = new.id;'],
  ])('changes the column after the write in %s', (statement) => {
    expect(findChanged(of(statement, 'after'), ['email'])).toBe('email')
  })
  it.each([
    ['new.email := lower(new.email);'],
    ['update others set email = new.email where id = new.id;'],
    ['update guests set city = new.city where email = new.email;'],
    ['update guests set city = new.city; update others set email = new.email;'],
    ['insert into guests values (1) on conflict (id) do update set email = excluded.email;'],
  ])('changes nothing after the write in %s', (statement) => {
    expect(findChanged(of(statement, 'after'), ['email'])).toBe(undefined)
  })
  it.each([
    ['if new.email = old.email then raise exception $$same$$; end if;'],
    ['new.city := lower(new.email);'],
    ['-- new.email := 1'],
    ["perform pg_notify('x', 'new.email := 1');"],
    ['old.email := new.email;'],
    ["insert into history select * from jsonb_populate_record(null::history, to_jsonb(new) - 'email');"],
    ['select lower(new.email) into new.city;'],
    ["perform f('email', new.city, new.email);"],
  ])('changes nothing in %s', (statement) => {
    expect(findChanged(of(statement), ['email'])).toBe(undefined)
  })
})

describe('a table', () => {
  const eaas = createClient(createTestService())
  afterAll(() => eaas.close())
  it.each([
    ['envelope', { format: 'compact' }],
    ['row_seal', { sealed: 'row' }],
  ] as const)('is refused where a trigger changes %s, which opens the row', async (column, form) => {
    const fields = { email: text() }
    const model = eaas.model({ name: 'guests', key: 'guests', bind: ['id'], ...form, fields })
    const run = async () => [{ name: 'changes', ...of(`new.${column} := null;`) }]
    await expect(assertWritable(run, createSealedTable(model), { table: 'guests' })).rejects.toThrow(
      `the trigger changes of the table of guests changes the column ${column}`,
    )
  })
})
