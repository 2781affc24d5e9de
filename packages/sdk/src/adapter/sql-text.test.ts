import { describe, expect, it } from 'vitest'
import { findTableInStatement } from './sql-statements.js'
import { isClosedSql, isOneSqlValue, namesInSql, positionsInSql } from './sql-text.js'

const named = (text: string) =>
  namesInSql(text).map(({ name, qualifier }) => (qualifier ? `${qualifier}.${name}` : name))

describe('the names in a text of SQL', () => {
  it.each([
    ['lower(email) = ?', ['lower', 'email', '?']],
    ['"Users" . "Email"', ['users', 'users.email']],
    ['public.users.email', ['public', 'public.users', 'users.email']],
    ['"e-""mail" > 1.5', ['e-"mail', '1', '1.5']],
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
    ["\"it's\" || email || ''"],
    ["`it's` || email || ''"],
    ["[it's] || email || ''"],
    ["'it\\' || email || ''"],
    ["'it\\'s' || email || ''"],
    ["/* /* */ ' */ email || ''"],
    ["/* /* */ email || ' */ '"],
    ["1 # ' \n || email || ''"],
    ["1 #> '{a}' || email"],
    ["1 --' \n || email || ''"],
    ["1--1 || ' ' || email"],
    ["E'a'\n'it\\'s' || email || ''"],
    ["U&'it\\' || email || ''"],
    ["/*! email */ || 'x'"],
    ["$a$ it's $b$ $a$ || email || '$a$'"],
  ])('are never hidden where it is unclear how a literal ends: %s', (text) => {
    expect(named(text)).toContain('email')
  })
  it.each(['U&"\\0065mail"', '"it', "it's"])('are refused where they are unclear: %s', (text) => {
    expect(() => namesInSql(text)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })
  it.each([
    ['*', true],
    ['users . *', true],
    ['"users".*', true],
    ['public.users.*', true],
    ['row(users.*)::text', true],
    ['id, *', true],
    ['select distinct on (id) * from users', true],
    ['top (5) * from users', true],
    ['count(*)', false],
    ['likes * 2', false],
    ['(likes)*(2)', false],
    ['2 * -likes', false],
    ["'*'", false],
    ['/* * */ likes', false],
  ])('have one for all columns: %s', (text, expected) => {
    expect(namesInSql(text).some(({ name }) => name === '*')).toBe(expected)
  })
  it('say what is only counted', () => {
    const counted = namesInSql('count(a.b.email), count(distinct nick), max(count), count(c || 1)').filter(
      (one) => one.isCounted,
    )
    expect(counted.map(({ name }) => name)).toEqual(['email'])
  })
})

describe('the positions in an order by', () => {
  it.each<[string, number[]]>([
    ['1', [1]],
    ['2 desc nulls last, city, 3', [2, 3]],
    ['(1)', [1]],
    ['distinct on (1, city)', [1]],
    ['order by 2, 1', [2, 1]],
    ['rollup (1, city), grouping sets ((2), ())', [1, 2]],
    ['likes + 1, 1 + 1, substr(city, 1), array[1], \'1\', 1.5, "1"', []],
  ])('are read: %s', (text, positions) => {
    expect([...new Set(positionsInSql(text))]).toEqual(positions)
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
    ['create table always as select * from users'],
    ["alter view v as select id from users where email = 'x'"],
    ["do 'begin update users set city = 1; end'"],
    ["with a as (select 1 as \"it's\") update users set email = 'x' where city = 'y'"],
    ["with a as (select 1 as [it's]) update users set email = 'x' where city = 'y'"],
    ["insert into \"log's\" values ('a'); update users set email = 'x'"],
    ["do $$ begin execute 'update ' || 'users set city = 1'; end $$"],
    ["do $$ begin perform 'it''s'; update users set city = 1; end $$"],
    ["exec('update users set city = 1')"],
    ['prepare s from "update users set city = 1"'],
    ["execute immediate 'select email from users'"],
    ['/*! update users set city = 1 */'],
    ['select id from users /* x */ where "email" is null'],
    ['select users from users'],
    ['select id, to_jsonb(u) from posts p, users as u'],
    ['select jsonb_agg(u) from posts p join public.users u on p.id = u.id'],
    ['select j from users, to_jsonb(users) as j'],
    ['select (u).city, u::text from (select 1) x, users u'],
    ['select c from users as u (a, b, c)'],
    ['delete from users where id = 1 returning users'],
    ['select distinct on (id) * from users'],
    ['select count(distinct email) from users'],
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
    ['create table users (email jsonb, low text generated always as (lower(city)) stored)'],
    ['alter table users add low text generated always as (lower(city)) virtual'],
    ['create table posts (user_id uuid references users on update cascade on delete set null, email text)'],
    ['create table users (email jsonb); create trigger t after update on users for each row execute function note()'],
    ['create view v as select id, city from users'],
    ['alter table users alter column email type jsonb using to_jsonb(email)'],
    ['grant select, insert, update on users to app'],
    ['select count(email), count(u.email) from users u'],
    ['select users.id, u.id as users from users, public.users as u where u.city = users.city'],
    [
      'with x as (select id from users), users as (select 1 as a) select x.id from x join users on true, users left join x y on y.id = x.id',
    ],
    ['select id from users natural left join posts order by users.id'],
    ["insert into posts values ('update users set city = 1', 'C:\\', 'it''s \"users\"')"],
    ["insert into posts values (E'users\\'s', $$users' email$$) -- users"],
    ['pragma table_info(users)'],
    ['select id from users where exists (select 1 from users u where u.id = users.id)'],
    ["execute plan('O\"Brien')"],
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
