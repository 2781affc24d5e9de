// Each change that somebody who owns the tables can make to them, or to what their statements call, is named.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MIGRATIONS_DIRECTORY } from '../../packages/server/src/migrations-directory.js'
import { compareTables, compareTablesIn, type SchemaDifferences } from '../../packages/server/src/store/schema.js'
import { type Service, startService } from '../support/service.js'

const SAME = { missing: [], added: [], beside: [] }

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.close())

const compare = () => compareTables(service.services.sql, MIGRATIONS_DIRECTORY)

const trigger = 'create function meddle() returns trigger language plpgsql as $$ begin return null; end $$'

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
    { added: ['constraint audit_log.meddle CHECK (false) NOT VALID'] },
  ],
  [
    'an index that runs a function',
    'create index meddle on audit_log (lower(actor))',
    'drop index meddle',
    { added: ['CREATE INDEX meddle ON audit_log USING btree (lower(actor))'] },
  ],
  [
    'no index',
    'drop index audit_log_time',
    'create index audit_log_time on audit_log (tenant_id, created_at, id)',
    {
      missing: ['CREATE INDEX audit_log_time ON audit_log USING btree (tenant_id, created_at, id)'],
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
      expect(await compare()).toEqual({ ...SAME, ...lines })
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
      const { added } = await compareTablesIn(sql, MIGRATIONS_DIRECTORY)
      throw added // rolls back
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
      expect(await undone.catch((found: unknown) => found)).toEqual({ ...SAME, added: named })
    },
  )
})
