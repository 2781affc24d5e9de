import { describe, expect, it } from 'vitest'
import { findTableInStatement, isClosedSql, isOneSqlValue, namesInSql } from './sql-text.js'

const named = (text: string) =>
  namesInSql(text).map(({ name, qualifier }) => (qualifier ? `${qualifier}.${name}` : name))

describe('the names in a text of SQL', () => {
  it.each([
    ['lower(email) = ?', ['lower', 'email', '?']],
    ['"Users" . "Email"', ['users', 'users.email']],
    ['public.users.email', ['public', 'public.users', 'users.email']],
    ['`e-mail` > 1.5', ['e-mail', '1', '1.5']],
    ['ünïcode', ['ünïcode']],
    ['arr[email]', ['arr', 'email']],
    ['', []],
  ])('are read with what stands before their dot: %s', (text, names) => {
    expect(named(text)).toEqual(names)
  })
  it('are not what a literal says', () => {
    expect(named("city = 'the email of O''Hara' and x")).toEqual(['city', 'and', 'x'])
  })
  it.each([
    ["E'it\\'s' || email || ''"],
    ["city -- don't\n, email, 'x'"],
    ["/* don't */ email || ''"],
    ["$$don't$$ || email || ''"],
  ])('are never hidden where it is unclear how a literal ends: %s', (text) => {
    expect(named(text)).toContain('email')
  })
})

describe('a statement as text', () => {
  const tables = [['users', (column: string) => column === 'email']] as const
  it.each([
    ["insert into users values (1, 'x')"],
    ['INSERT INTO "Users" (id) values (1)'],
    ['with x as (update users set city = 1 returning id) select * from x'],
    ['copy public.users from stdin'],
    ['select id from users where email = $1'],
    ["create temp table other as select 1; update users set email = 'x'"],
    ["lock table users; update users set email = 'x';"],
    ['select * from users'],
    ['select id, u.* from users u'],
    ['delete from users returning *'],
    ['table users'],
    ['update /*;*/ users set city = 1'],
    ['with "a;b" as (select 1) update users set "city" = 1'],
    ["create table a (b text default 'x;y'); update users set city = 1"],
    ["create rule r as on insert to orders do also update users set email = 'x'"],
    ["create or replace function f() returns void language sql as $$ update users set email = 'x' $$"],
    ["create function f() returns void language sql as 'update users set email = ''x'''"],
    ['create function f() returns text language sql return (select email from users)'],
    ["create procedure p() begin atomic update users set email = 'x'; end"],
    ["create trigger t after insert on orders for each row update users set email = 'x'"],
    ['create materialized view v as select id, email from users'],
    ['create table copies as select * from users'],
    ["alter view v as select id from users where email = 'x'"],
    ["do 'begin update users set city = 1; end'"],
  ])('is found where it writes the table, names an encrypted column, or selects all: %s', (text) => {
    expect(findTableInStatement(text, tables)).toBe('users')
  })
  it.each([
    ['select count(*), sum(id * 2) from users'],
    ['delete from users where id = 1'],
    ['create table users (email jsonb)'],
    ["create table users (email jsonb, mark text default ';');"],
    ['create table users (email jsonb); create index on users (email);'],
    ['insert into contacts (email) values (1)'],
    ["select pg_table_size('users') as email"],
    ['create table users (id int generated always as identity, email jsonb, event text)'],
    ['create table posts (user_id uuid references users on update cascade on delete set null, email text)'],
    ['create table users (email jsonb); create trigger t after update on users for each row execute function note()'],
    ['create view v as select id, city from users'],
    ['alter table users alter column email type jsonb using to_jsonb(email)'],
    ['grant select, insert, update on users to app'],
  ])('is left alone otherwise: %s', (text) => {
    expect(findTableInStatement(text, tables)).toBeUndefined()
  })
})

describe('isOneSqlValue', () => {
  it.each(['now()', 'upper( ? )', "case when a = 1 then 'x, y' else extract(epoch from b) end", '"a"."b" || \'(\''])(
    'takes %s',
    (text) => expect([isOneSqlValue(text), isClosedSql(text)]).toEqual([true, true]),
  )
  it.each(['1, b = 2', "'x' where true", 'a from b', '(1, 2), 3', '1; delete'])('refuses %s, which goes on', (text) =>
    expect([isOneSqlValue(text), isClosedSql(text)]).toEqual([false, true]),
  )
  it.each(["'x", '"x', '(1', '1)', '1) or (1', '1 --', '1 /* x', '1 #', "e'\\''", '$a$ $a$'])(
    'refuses %s, whose end is not clear',
    (text) => expect([isOneSqlValue(text), isClosedSql(text)]).toEqual([false, false]),
  )
})
