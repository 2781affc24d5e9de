// Each change that somebody who owns the tables can make to them, or to what their statements call, is named.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  compareTables,
  compareTablesIn,
  MISSING_INDEX,
  type SchemaDifferences,
} from '../../packages/server/src/guard/store/schema.js'
import { MIGRATIONS_DIRECTORY } from '../../packages/server/src/package-directory.js'
import { backend } from '../support/database/database.js'
import { type Service, startService } from '../support/service/service.js'

const SAME: SchemaDifferences = {
  missing: [],
  added: [],
  refusing: [],
  harmless: [],
  beside: [],
  settings: [],
  digest: '',
}

/** SHA-256 in hexadecimal. */
const DIGEST = /^[0-9a-f]{64}$/

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.close())

const compare = () => compareTables(service.services.sql, MIGRATIONS_DIRECTORY)

const trigger = 'create function meddle() returns trigger language plpgsql as $$ begin return null; end $$'

const immutable = 'create function meddle(text) returns text immutable language sql as $$ select $1 $$'
const own =
  "create type meddle as enum ('a'); create function meddle(meddle, meddle) returns boolean language sql as $$ select true $$"

/** What somebody does, how it is undone, and the beginnings of the lines that say so. */
const CHANGES: [what: string, change: string, undo: string, lines: Partial<SchemaDifferences>][] = [
  [
    'a trigger',
    `${trigger}; create trigger meddle before insert on audit_log for each row execute function meddle()`,
    'drop function meddle cascade',
    { added: ['trigger meddle on audit_log'], beside: ['function public.meddle()'] },
  ],
  [
    'a rule',
    'create rule meddle as on insert to heads do instead nothing',
    'drop rule meddle on heads',
    { added: ['rule meddle on heads'] },
  ],
  [
    'a policy',
    'create policy meddle on api_keys using (true); alter table api_keys enable row level security',
    'drop policy meddle on api_keys; alter table api_keys disable row level security',
    { added: ['policy meddle on api_keys', 'row level security of api_keys'] },
  ],
  [
    'no primary key',
    'alter table keys drop constraint keys_pkey',
    'alter table keys add primary key (tenant_id, key_id)',
    {
      missing: [
        'CREATE UNIQUE INDEX keys_pkey ON keys USING btree (tenant_id, key_id)',
        'constraint keys.keys_pkey PRIMARY KEY (tenant_id, key_id)',
      ],
    },
  ],
  [
    'no unique digest',
    'alter table api_keys drop constraint api_keys_tenant_id_digest_key',
    'alter table api_keys add unique (tenant_id, digest)',
    {
      missing: [
        'CREATE UNIQUE INDEX api_keys_tenant_id_digest_key ON api_keys USING btree (tenant_id, digest)',
        'constraint api_keys.api_keys_tenant_id_digest_key UNIQUE (tenant_id, digest)',
      ],
    },
  ],
  [
    'another constraint',
    'alter table audit_log add constraint meddle check (false) not valid',
    'alter table audit_log drop constraint meddle',
    { refusing: ['constraint audit_log.meddle CHECK (false) NOT VALID'] },
  ],
  [
    "an index that runs a function of PostgreSQL's",
    'create index meddle on audit_log (lower(actor))',
    'drop index meddle',
    { refusing: ['CREATE INDEX meddle ON audit_log USING btree (lower(actor))'] },
  ],
  [
    'an index',
    'create index meddle on audit_log (actor, created_at) include (action)',
    'drop index meddle',
    { harmless: ['CREATE INDEX meddle ON audit_log USING btree (actor, created_at) INCLUDE (action)'] },
  ],
  [
    'an index of values that may be longer than it takes',
    'create index meddle on audit_log (metadata)',
    'drop index meddle',
    { refusing: ['CREATE INDEX meddle ON audit_log USING btree (metadata)'] },
  ],
  [
    'a unique index',
    'create unique index meddle on audit_log (tenant_id, actor)',
    'drop index meddle',
    { refusing: ['CREATE UNIQUE INDEX meddle ON audit_log USING btree (tenant_id, actor)'] },
  ],
  [
    'an exclusion',
    'alter table audit_log add constraint meddle exclude (actor with =)',
    'alter table audit_log drop constraint meddle',
    {
      refusing: [
        'CREATE INDEX meddle ON audit_log USING btree (actor)',
        'constraint audit_log.meddle EXCLUDE USING btree (actor WITH =)',
      ],
    },
  ],
  [
    'an index whose expression is a function of somebody',
    `${immutable}; create index meddle on audit_log (meddle(actor))`,
    'drop index meddle; drop function meddle(text)',
    {
      added: ['CREATE INDEX meddle ON audit_log USING btree (public.meddle(actor))'],
      beside: ['function public.meddle(text)'],
    },
  ],
  [
    'an index whose condition is a function of somebody',
    `${immutable}; create index meddle on audit_log (actor) where meddle(actor) > ''`,
    'drop index meddle; drop function meddle(text)',
    {
      added: ["CREATE INDEX meddle ON audit_log USING btree (actor) WHERE (public.meddle(actor) > ''::text)"],
      beside: ['function public.meddle(text)'],
    },
  ],
  [
    "a check that is one of PostgreSQL's functions, with an effect",
    "alter table audit_log add constraint meddle check (set_config('search_path', 'meddle', false) is not null) not valid",
    'alter table audit_log drop constraint meddle',
    {
      added: [
        "constraint audit_log.meddle CHECK ((set_config('search_path'::text, 'meddle'::text, false) IS NOT NULL)) NOT VALID",
      ],
    },
  ],
  [
    'a check that converts, by functions that it does not name',
    'alter table audit_log add constraint meddle check (actor::uuid is not null) not valid',
    'alter table audit_log drop constraint meddle',
    { added: ['constraint audit_log.meddle CHECK (((actor)::uuid IS NOT NULL)) NOT VALID'] },
  ],
  [
    'an index that is sorted by a function of somebody',
    `create function meddle(text, text) returns integer immutable language sql as $$ select 0 $$;
     create operator class meddle for type text using btree as operator 1 <, operator 3 =, function 1 meddle(text, text);
     create index meddle on audit_log (actor meddle)`,
    'drop index meddle; drop operator family meddle using btree; drop function meddle(text, text)',
    {
      added: ['CREATE INDEX meddle ON audit_log USING btree (actor public.meddle)'],
      beside: ['function public.meddle(text,text)'],
    },
  ],
  [
    'a check that is a function of somebody',
    `${immutable}; alter table audit_log add constraint meddle check (meddle(actor) <> '')`,
    'alter table audit_log drop constraint meddle; drop function meddle(text)',
    {
      added: ["constraint audit_log.meddle CHECK ((public.meddle(actor) <> ''::text))"],
      beside: ['function public.meddle(text)'],
    },
  ],
  [
    'a column that may be null',
    'alter table keys add column meddle text',
    'alter table keys drop column meddle',
    { harmless: ['column keys.meddle text'] },
  ],
  [
    'a column with a default',
    'alter table keys add column meddle integer default 1',
    'alter table keys drop column meddle',
    { added: ['column keys.meddle integer default 1'] },
  ],
  [
    'a column of a type that has a condition',
    'create domain meddle as text check (value is null); alter table keys add column meddle meddle',
    'alter table keys drop column meddle; drop domain meddle',
    { added: ['column keys.meddle public.meddle'] },
  ],
  [
    'an index with another name',
    'alter index keys_listed rename to meddle',
    'alter index meddle rename to keys_listed',
    {
      harmless: ['CREATE INDEX meddle ON keys USING btree (tenant_id, created_at, key_id), named keys_listed by eaas'],
    },
  ],
  [
    'one of our indexes of expressions under another name',
    'alter index audit_log_key_action_hash rename to meddle',
    'alter index meddle rename to audit_log_key_action_hash',
    {
      harmless: [
        'CREATE INDEX meddle ON audit_log USING btree (uuid_hash_extended(key_id, hashtextextended(action, (uuid_hash(tenant_id))::bigint)), id), named audit_log_key_action_hash by eaas',
      ],
    },
  ],
  [
    'a constraint with another name, which errors are told apart by',
    'alter table audit_log rename constraint audit_log_pkey to meddle',
    'alter table audit_log rename constraint meddle to audit_log_pkey',
    {
      missing: [
        'CREATE UNIQUE INDEX audit_log_pkey ON audit_log USING btree (tenant_id, id)',
        'constraint audit_log.audit_log_pkey PRIMARY KEY (tenant_id, id)',
      ],
      refusing: [
        'CREATE UNIQUE INDEX meddle ON audit_log USING btree (tenant_id, id)',
        'constraint audit_log.meddle PRIMARY KEY (tenant_id, id)',
      ],
    },
  ],
  [
    'an operator of a name that no statement has',
    'create function meddle(text, text) returns boolean language sql as $$ select true $$; create operator % (leftarg = text, rightarg = text, function = meddle)',
    'drop operator public.% (text, text); drop function meddle(text, text)',
    { harmless: ['operator public.%(text,text)'], beside: ['function public.meddle(text,text)'] },
  ],
  [
    'an operator that takes a literal as a type of its own, beside a type of PostgreSQL',
    "create type meddle as enum ('API key '); create function meddle(meddle, uuid) returns text language sql as $$ select 'x' $$; create operator || (leftarg = meddle, rightarg = uuid, function = meddle)",
    'drop operator public.|| (meddle, uuid); drop function meddle(meddle, uuid); drop type meddle',
    { added: ['operator public.||(public.meddle,uuid)'], beside: ['function public.meddle(public.meddle,uuid)'] },
  ],
  [
    'an operator for a type of its own',
    `${own}; create operator = (leftarg = meddle, rightarg = meddle, function = meddle)`,
    'drop operator public.= (meddle, meddle); drop function meddle(meddle, meddle); drop type meddle',
    {
      harmless: ['operator public.=(public.meddle,public.meddle)'],
      beside: ['function public.meddle(public.meddle,public.meddle)'],
    },
  ],
  [
    "an operator for a type that PostgreSQL's own become by themselves",
    `${own}; create operator = (leftarg = meddle, rightarg = meddle, function = meddle); create cast (text as meddle) with inout as implicit`,
    'drop operator public.= (meddle, meddle); drop function meddle(meddle, meddle); drop type meddle cascade',
    {
      added: ['operator public.=(public.meddle,public.meddle)'],
      beside: ['function public.meddle(public.meddle,public.meddle)'],
    },
  ],
  [
    'an operator for a domain, which is the type below it',
    'create domain meddle as text; create function meddle(meddle, meddle) returns boolean language sql as $$ select true $$; create operator = (leftarg = meddle, rightarg = meddle, function = meddle)',
    'drop operator public.= (meddle, meddle); drop function meddle(meddle, meddle); drop domain meddle',
    {
      added: ['operator public.=(public.meddle,public.meddle)'],
      beside: ['function public.meddle(public.meddle,public.meddle)'],
    },
  ],
  [
    'no index',
    'drop index keys_listed',
    'create index keys_listed on keys (tenant_id, created_at, key_id)',
    {
      harmless: [`${MISSING_INDEX}CREATE INDEX keys_listed ON keys USING btree (tenant_id, created_at, key_id)`],
    },
  ],
  [
    'another default',
    "alter table tenants alter column status set default 'x'",
    "alter table tenants alter column status set default 'active'",
    {
      missing: ["column tenants.status text not null default 'active'::text"],
      added: ["column tenants.status text not null default 'x'::text"],
    },
  ],
  [
    'a column that may be null',
    'alter table audit_log alter column mac drop not null',
    'alter table audit_log alter column mac set not null',
    { missing: ['column audit_log.mac bytea not null'], added: ['column audit_log.mac bytea'] },
  ],
  [
    'a generated column',
    'alter table heads add column meddle bigint generated always as (last_id + 1) stored',
    'alter table heads drop column meddle',
    { added: ['column heads.meddle bigint generated (last_id + 1)'] },
  ],
  [
    'another collation',
    'alter table audit_log alter column actor type text collate "C"',
    'alter table audit_log alter column actor type text',
    {
      missing: ['column audit_log.actor text not null'],
      added: ['column audit_log.actor text not null collate "C"'],
    },
  ],
  [
    'a table that inherits, and so adds rows',
    'create table meddle () inherits (audit_log)',
    'drop table meddle',
    { added: ['inheritance of public.meddle from public.audit_log'] },
  ],
  [
    "a function that is called in the place of PostgreSQL's own",
    'create function unnest(bytea[]) returns setof bytea language sql as $$ select null::bytea $$',
    'drop function unnest(bytea[])',
    { added: ['overloading function public.unnest(bytea[])'] },
  ],
  [
    "a type with the name of a function of PostgreSQL's",
    'create domain unnest as text; create table to_regclass (i integer)',
    'drop domain unnest; drop table to_regclass',
    { added: ['overloading type public.to_regclass', 'overloading type public.unnest'] },
  ],
  [
    "a function in PostgreSQL's catalog",
    'create function pg_catalog.meddle() returns integer language sql as $$ select 1 $$',
    'drop function pg_catalog.meddle()',
    { beside: ['function pg_catalog.meddle()'] },
  ],
  [
    'an operator of its own',
    'create function meddle(bytea, bytea) returns boolean language sql as $$ select true $$; create operator = (leftarg = bytea, rightarg = bytea, function = meddle)',
    'drop operator public.= (bytea, bytea); drop function meddle(bytea, bytea)',
    { added: ['operator public.=(bytea,bytea)'], beside: ['function public.meddle(bytea,bytea)'] },
  ],
  [
    'a cast between types of PostgreSQL',
    'create cast (int8range as bytea) with inout as implicit',
    'drop cast (int8range as bytea)',
    { added: ['cast from int8range to bytea'] },
  ],
  [
    'a table of another schema whose trigger runs when an entry is deleted',
    `create schema other; create table other.child (t uuid, i bigint, constraint meddle foreign key (t, i) references audit_log on delete cascade);
     ${trigger}; create trigger meddle before delete on other.child for each row execute function meddle();
     create rule meddle as on delete to other.child do also select 1`,
    'drop schema other cascade; drop function meddle',
    {
      added: [
        'foreign key meddle of other.child to audit_log',
        'rule meddle on other.child',
        'trigger meddle on other.child',
      ],
      beside: ['function public.meddle()'],
    },
  ],
]

/** What is a member of an extension, which anybody who may create one can add to it; plpgsql is one that every database has. */
const MEMBERS: [what: string, members: [kind: string, name: string, made: string][], named: string[]][] = [
  [
    'a function that fits better',
    [['function', 'unnest(text[])', 'returns setof text language sql as $$ select null $$']],
    ['overloading function public.unnest(text[])'],
  ],
  [
    'a function that fits with fewer arguments',
    [['function', 'length(text, integer default 1)', 'returns integer language sql as $$ select 1 $$']],
    ['overloading function public.length(text,integer)'],
  ],
  [
    'an operator',
    [
      ['function', 'meddle(text[], text[])', 'returns boolean language sql as $$ select true $$'],
      ['operator', 'public.= (text[], text[])', '(leftarg = text[], rightarg = text[], function = meddle)'],
    ],
    ['operator public.=(text[],text[])'],
  ],
  [
    'a function in the shadow of one with the same arguments',
    [['function', 'public.gen_random_uuid()', 'returns uuid language sql as $$ select null::uuid $$']],
    [],
  ],
  ['another function', [['function', 'meddle()', 'returns integer language sql as $$ select 1 $$']], []],
]

describe('a change outside the server', () => {
  it.each(CHANGES)('is named: %s', async (_, change, undo, lines) => {
    const { sql } = service.services
    await sql.unsafe(change)
    try {
      const isAlarming = [lines.missing, lines.added, lines.refusing].some((some) => some !== undefined)
      expect(await compare()).toEqual({ ...SAME, ...lines, digest: isAlarming ? expect.stringMatching(DIGEST) : '' })
    } finally {
      await sql.unsafe(undo)
    }
    expect(await compare()).toEqual(SAME)
  })

  it.each([
    [
      'a view that takes the place of a table',
      'alter table unrecorded_calls rename to meddle; create view unrecorded_calls as table meddle',
      'view unrecorded_calls',
    ],
    [
      'a temporary table in front of a table',
      "create temporary table heads (like heads); select set_config('search_path', 'public', true)",
      'search path pg_temp',
    ],
    [
      'a table of another schema in front of a table',
      'create schema meddle; create table meddle.heads (like heads including all); set local search_path = meddle, public',
      'table heads in schema meddle',
    ],
    ['a setting that reads null as text', 'set local array_nulls = off', 'setting array_nulls off'],
    [
      'a setting that runs no trigger',
      'set local session_replication_role = replica',
      'setting session_replication_role replica',
    ],
    [
      'a trigger that is said to be internal',
      `${trigger}; create trigger meddle before insert on audit_log for each row execute function meddle();
       update pg_trigger set tgisinternal = true where tgname = 'meddle'`,
      'trigger meddle on audit_log',
    ],
    [
      "an operator of PostgreSQL's that calls another function",
      `create function meddle(uuid, uuid) returns boolean language sql as $$ select $1::text = $2::text $$;
       update pg_operator set oprcode = 'meddle'::regproc where oid = 'pg_catalog.=(uuid,uuid)'::regoperator`,
      'operator pg_catalog.=(uuid,uuid)',
    ],
    [
      "a cast of PostgreSQL's that calls another function",
      `create function meddle(bigint) returns money language sql as $$ select null::money $$;
       update pg_cast set castfunc = 'meddle'::regproc where castsource = 'bigint'::regtype and casttarget = 'money'::regtype`,
      'cast from bigint to money',
    ],
    [
      'a schema in front of the catalog',
      'create schema meddle; set local search_path = meddle, pg_catalog, public',
      'search path meddle',
    ],
  ])('is named: %s', async (_, change, line) => {
    const undone = service.services.sql.begin(async (sql) => {
      await sql.unsafe(change)
      const { added, settings } = await compareTablesIn(sql, MIGRATIONS_DIRECTORY)
      throw [...added, ...settings] // rolls back
    })
    const added = (await undone.catch((found: unknown) => found)) as string[]
    expect(added.some((found) => found.startsWith(line))).toBe(true)
  })
})

describe('a member of an extension', () => {
  it.each(MEMBERS)(
    'is named if it may be called in the place of what PostgreSQL has: %s',
    async (_, members, named) => {
      const undone = service.services.sql.begin(async (sql) => {
        for (const [kind, name, made] of members) {
          const created = kind === 'operator' ? name.slice(0, name.indexOf('(')) : name
          await sql.unsafe(`create ${kind} ${created} ${made}`)
          await sql.unsafe(`alter extension plpgsql add ${kind} ${name.replace(/ default \d/, '')}`)
        }
        throw await compareTablesIn(sql, MIGRATIONS_DIRECTORY) // rolls back
      })
      const digest = named.length > 0 ? expect.stringMatching(DIGEST) : ''
      expect(await undone.catch((found: unknown) => found)).toEqual({ ...SAME, added: named, digest })
    },
  )
})

// PGlite has none of them.
describe.skipIf(backend() === 'embedded')('an extension in the schema of the tables', () => {
  it.for(['pg_trgm', 'citext', 'hstore', 'pgcrypto', 'uuid-ossp', 'ltree'])(
    'does no harm: %s',
    async (name, { skip }) => {
      const { sql } = service.services
      const [found] = await sql`select from pg_available_extensions where name = ${name}`
      if (!found) skip('this PostgreSQL was installed without its additional modules')
      await sql`create extension ${sql(name)} schema public`
      try {
        const { harmless, ...others } = await compare()
        expect(others).toEqual({ ...SAME, harmless: undefined })
        expect(harmless.filter((line) => !/^(?:operator|overloading function) public\./.test(line))).toEqual([])
      } finally {
        await sql`drop extension ${sql(name)}`
      }
    },
  )
})

describe('the digest of differences', () => {
  it.each([
    ['the function of a trigger', `create or replace ${trigger.slice('create '.length).replace('null', 'new')}`],
    [
      'the condition of a trigger',
      `drop trigger meddle on audit_log; create trigger meddle before insert on audit_log for each row when (new.id > 1) execute function meddle()`,
    ],
    ['whether the trigger is there for replicas only', 'alter table audit_log enable replica trigger meddle'],
    ['one more difference', 'alter table heads alter column last_id set default 1'],
  ])('changes with %s', async (_, change) => {
    const digests = service.services.sql.begin(async (sql) => {
      const digest = () =>
        sql.savepoint(async (inner) => {
          const { digest } = await compareTablesIn(inner, MIGRATIONS_DIRECTORY)
          await inner`set local search_path = public`
          return digest
        })
      await sql.unsafe(
        `${trigger}; create trigger meddle before insert on audit_log for each row execute function meddle()`,
      )
      const before = [await digest(), await digest()]
      await sql.unsafe(change)
      throw [...before, await digest()] // rolls back
    })
    const [first, same, changed] = (await digests.catch((found: unknown) => found)) as string[]
    expect(first).toMatch(DIGEST)
    expect(same).toBe(first)
    expect(changed).toMatch(DIGEST)
    expect(changed).not.toBe(first)
  })
})
