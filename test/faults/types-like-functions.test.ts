// Types with the names of PostgreSQL's functions. A call with one argument that no function fits exactly is a cast to such a type, which checks the
// value by a function of whoever made it. So all SQL of the server says whose functions it calls.
import { expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo } from '../support/service/eaas-process.js'
import { ROOT_KEY, startService } from '../support/service/service.js'

/** One for each function that has one argument. */
const TYPES = `
  create sequence called;
  create function called() returns boolean language sql as $$ select pg_catalog.nextval('public.called') > 0 $$;
  do $$
    declare name text;
    begin
      for name in select distinct proname from pg_proc where pronargs = 1 and pronamespace = 'pg_catalog'::regnamespace loop
        execute pg_catalog.format('create domain public.%I as text check (public.called())', name);
      end loop;
    end
  $$`

it('types with the names of functions are not called in their place, and are named', async () => {
  const database = await freshDatabase('types', { migrated: true })
  const before = await startService({ database }) // an embedded database can be reached only through a server
  const sql = connectTo(database)
  await sql.unsafe(TYPES)
  await sql.end()
  await before.close()
  const service = await startService({ database })
  try {
    const caller = await service.createTenant()
    const { body: key } = await caller.call('POST', '/v1/keys', { name: 'k' })
    const dek = Buffer.alloc(32, 5).toString('base64')
    const answers = [
      await caller.call('POST', `/v1/keys/${key.key_id}/wrap`, { dek }),
      await caller.call('GET', '/v1/keys'),
      await caller.call('GET', '/v1/audit'),
      await caller.call('GET', '/health'),
    ]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    for (const args of [['audit', 'verify', '--all'], ['tenant', 'list'], ['purge']]) {
      const { code, stderr } = await runCommand(args, { database, rootKey: ROOT_KEY })
      expect([args, code, stderr]).toEqual([args, 0, ''])
    }
    const { code, stdout } = await runCommand(['doctor'], { database, rootKey: ROOT_KEY })
    expect([code, stdout]).toEqual([1, expect.stringContaining('overloading type public.to_regclass')])
    const after = connectTo(database)
    expect(await after`select is_called from public.called`).toEqual([{ is_called: false }])
    await after.end()
  } finally {
    await service.close()
  }
})
