// eaas key: the operator manages a tenant's keys, and the tenant's own log records it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runCommand } from '../support/service/command-host.js'
import { type RunningServer, startServer } from '../support/service/server.js'

describe('eaas key', { timeout: 120_000 }, () => {
  let database: TestDatabase
  let server: RunningServer
  let tenant_id: string

  beforeAll(async () => {
    ;({ database, tenant_id } = await databaseWithTenant())
    server = await startServer({ database })
  }, 60_000)
  afterAll(() => server?.stop())

  const key = (...args: string[]) => runCommand(['key', ...args], { database })
  const json = async (...args: string[]) => {
    const { code, stdout, stderr } = await key(...args, '--tenant', 'acme', '--json')
    expect([args, code, stderr]).toEqual([args, 0, ''])
    return JSON.parse(stdout)
  }

  it('takes a key from its creation to its destruction and back, by name and by id, beside a server', async () => {
    const { id } = await json('create', '--name', 'orders')
    expect(await json('rotate', 'orders')).toMatchObject({ id, current_version: 2, status: 'active' })
    expect(await json('show', id)).toMatchObject({ name: 'orders', versions: [{ version: 1 }, { version: 2 }] })
    expect(await json('update', 'orders', '--min-unwrap-version', '2')).toMatchObject({ id, min_unwrap_version: 2 })
    expect((await key('show', id, '--tenant', 'acme')).stdout).toContain('active, version 2, opens from version 2 on.')
    expect(await key('update', id, '--tenant', 'acme', '--min-unwrap-version', '3')).toMatchObject({
      code: 1,
      stderr: 'eaas: min_unwrap_version: must be at most the current version, 2\n',
    })
    expect((await key('update', id, '--tenant', 'acme', '--min-unwrap-version', '0')).stderr).toMatch(
      /number of a version/,
    )
    expect(await key('destroy', 'orders', '--tenant', 'acme', '--confirm', 'orders')).toMatchObject({
      code: 1,
      stderr: 'eaas: the key is active: to destroy it must be disabled (eaas key disable)\n',
    })
    expect(await json('disable', id)).toMatchObject({ status: 'disabled' })

    const wrong = await key('destroy', 'orders', '--tenant', 'acme', '--confirm', 'order')
    expect(wrong).toMatchObject({ code: 1, stdout: '', stderr: "eaas: confirm: must be the key's name\n" })
    expect(await json('destroy', 'orders', '--confirm', 'orders')).toMatchObject({
      status: 'pending_destruction',
      destroy_at: expect.any(String),
    })
    expect(await json('cancel-destruction', 'orders')).toMatchObject({ status: 'disabled' })
    expect(await json('enable', 'orders')).toMatchObject({ status: 'active' })
    expect(await json('list')).toMatchObject({ count: 1, keys: [{ id, status: 'active' }] })
    expect((await key('list', '--tenant', 'acme')).stdout).toMatch(
      new RegExp(`^NAME .*\\norders .* active .*\\n\\n1 key of tenant acme \\(${tenant_id}\\)\\n$`),
    )
    expect(await json('list')).toMatchObject({ tenant_id })
    expect(await json('show', id)).toMatchObject({ tenant_id })

    const log = await runCommand(['audit', 'list', '--tenant', 'acme', '--key-id', id, '--json'], { database })
    const entries: { actor: string; action: string }[] = JSON.parse(log.stdout).logs
    expect(
      entries.map(({ actor, action }) => `${actor.replace(/^operator:.+@.+/, 'operator')} ${action}`).reverse(),
    ).toEqual([
      'operator key.create',
      'operator key.rotate',
      'operator key.update',
      'operator key.disable',
      'operator key.destroy',
      'operator key.destroy',
      'operator key.enable',
    ])
  })

  it('destroys a version once it was closed for the waiting period, and shows what each version did', async () => {
    const { id } = await json('create', '--name', 'versions')
    await json('rotate', id)
    await json('update', id, '--min-unwrap-version', '2')
    const command = ['destroy-version', 'versions', '1', '--tenant', 'acme', '--confirm', 'versions']
    expect(await key(...command)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^eaas: the version can be destroyed from .*Z on, if min_unwrap_version is left/),
    })
    const environment = { EAAS_DESTROY_WINDOW_DAYS: '0' }
    expect(await runCommand(['key', ...command], { database, environment })).toMatchObject({ code: 0, stderr: '' })
    expect((await key('show', id, '--tenant', 'acme')).stdout).toMatch(
      /\n\nVERSION +STATUS +CREATED +WRAPPED +LAST OPENED\n1 +destroyed +\S+ +0 +-\n2 +active +\S+ +0 +-\n$/,
    )
  })

  it('takes what looks like an id for the id, even where another key has that name', async () => {
    const { id } = await json('create', '--name', 'one')
    await json('create', '--name', id)
    expect(await json('show', id)).toMatchObject({ name: 'one' })
  })

  it('says that there is no such key, or no such tenant', async () => {
    expect(await key('show', 'none', '--tenant', 'acme')).toMatchObject({
      code: 1,
      stderr: 'eaas: acme has no key none; see: eaas key list --tenant acme\n',
    })
    expect((await key('list', '--tenant', 'none')).code).toBe(1)
    expect((await key('destroy', 'one', '--tenant', 'acme')).code).toBe(2) // without --confirm
  })
})
