// A database that answers with another row than the one asked for, for a single statement: the row is authentic, and its MAC says so. By a
// lock between two statements, a view, a type with its own comparison or a policy, whoever owns the database can do that unseen.
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listKeys } from '../../../packages/server/src/core/api/keys.js'
import { UNLIMITED } from '../../../packages/server/src/core/runner/budgets.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { createTenantStates } from '../../../packages/server/src/core/runner/tenant-state.js'
import type { Sql } from '../../../packages/server/src/core/store/db.js'
import { listKeys as listRows } from '../../../packages/server/src/core/store/keys.js'
import { findTenant } from '../../../packages/server/src/operate/cli/with-services.js'
import { createScheduledVerification } from '../../../packages/server/src/operate/jobs/verify-all.js'
import { answering } from '../../support/database/answering.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'

let service: Service
let acme: Caller
let beta: Caller
/** keys of acme, by their names */
let keys: { patients: string; marketing: string }
let limited: { id: string; secret: string }

beforeAll(async () => {
  service = await startService()
  acme = await service.createTenant({ name: 'acme' })
  beta = await service.createTenant({ name: 'beta' })
  const create = async (name: string) => (await acme.call('POST', '/v1/keys', { name })).body.id
  keys = { patients: await create('patients'), marketing: await create('marketing') }
  limited = (await acme.call('POST', '/v1/api-keys', { name: 'limited', permissions: ['encrypt'] })).body
})
afterAll(() => service?.close())

const exchangeNames = async () => {
  const { sql } = service.services
  await sql`update tenants set name = '~' where name = 'acme'`
  await sql`update tenants set name = 'acme' where name = 'beta'`
  await sql`update tenants set name = 'beta' where name = '~'`
}

/** The id of the newest entry of the installation's log. */
async function newestEntry(): Promise<number> {
  const [row] = await service.services.sql`select last_id from heads where tenant_id = ${INSTALLATION_ID}`
  return row?.last_id
}

/** The database as it answers a statement that matches: a question about one value as if it were about the other one. */
function exchanging(matching: RegExp, { asked, instead }: { asked: string; instead: string }): Sql {
  const { sql } = service.services
  const lying = (strings: TemplateStringsArray, ...values: never[]) =>
    sql(
      strings,
      ...(matching.test(strings.join('?'))
        ? values.map((value) => (value === asked ? (instead as never) : value))
        : values),
    )
  return lying as unknown as Sql
}

const statesOn = (sql: Sql) => createTenantStates({ sql, storeKeys: service.services.storeKeys })
/** The states of a server that has cached nothing, with something that happens before a tenant is read by its id. */
function statesAfter(happen: () => Promise<void>) {
  const states = statesOn(service.services.sql)
  return {
    ...states,
    async find(tenant_id: string) {
      await happen()
      return states.find(tenant_id)
    },
  }
}
const ANOTHER = { name: 'TamperedRowError', message: expect.stringMatching('another') }

describe('a tenant that is found by its name', () => {
  it('is refused if it got the name for the statement that finds it', async () => {
    await exchangeNames()
    const found = findTenant({ ...service.services, states: statesAfter(exchangeNames) }, 'acme')
    await expect(found).rejects.toMatchObject(ANOTHER)
    await expect(found).rejects.toThrow(`tenant beta (${beta.tenant.tenant_id})`)
  })

  it('is refused if its row has a name that the server did not write, and is found by its id', async () => {
    await exchangeNames()
    const states = statesOn(service.services.sql)
    await expect(findTenant({ ...service.services, states }, 'acme')).rejects.toMatchObject({
      name: 'TamperedRowError',
      message: expect.stringContaining(`give its id: ${beta.tenant.tenant_id}`),
    })
    await exchangeNames()
    const { tenant_id } = acme.tenant
    const fresh = { ...service.services, states: statesOn(service.services.sql) }
    expect(await findTenant(fresh, tenant_id)).toEqual({ tenant_id, name: 'acme' })
    expect(await findTenant(fresh, 'acme')).toEqual({ tenant_id, name: 'acme' })
  })
})

describe('a row that was not asked for', () => {
  it('is not taken for a tenant', async () => {
    const [asked, instead] = [acme.tenant.tenant_id, beta.tenant.tenant_id]
    await expect(statesOn(exchanging(/from tenants/, { asked, instead })).find(asked)).rejects.toMatchObject(ANOTHER)
  })

  it('is not taken for an API key: one with few rights does not get those of another', async () => {
    const { peppers } = service.services
    const [asked, instead] = [peppers.digest(limited.secret).digest, peppers.digest(acme.secret).digest]
    const state = await statesOn(exchanging(/from api_keys/, { asked, instead })).find(acme.tenant.tenant_id)
    await expect(state?.findApiKey(asked)).rejects.toMatchObject(ANOTHER)
  })

  it('is not taken for an API key that is found by its id', async () => {
    const [asked, instead] = [limited.id, acme.tenant.api_key.id]
    const state = await statesOn(exchanging(/from api_keys/, { asked, instead })).find(acme.tenant.tenant_id)
    await expect(state?.findApiKeyById(asked)).rejects.toMatchObject(ANOTHER)
  })

  it('is not taken for a key', async () => {
    const [asked, instead] = [keys.patients, keys.marketing]
    const state = await statesOn(exchanging(/from keys/, { asked, instead })).find(acme.tenant.tenant_id)
    await expect(state?.findKey(asked)).rejects.toMatchObject(ANOTHER)
  })

  it('is not taken for the version of a key', async () => {
    const [asked, instead] = [keys.patients, keys.marketing]
    const state = await statesOn(exchanging(/from key_versions/, { asked, instead })).find(acme.tenant.tenant_id)
    await expect(state?.findKey(asked)).rejects.toMatchObject({ name: 'TamperedRowError' })
  })

  it('is not listed as the key of a name', async () => {
    const sql = exchanging(/and name =/, { asked: 'patients', instead: 'marketing' })
    const listed = performAsSystem({ ...service.services, sql }, acme.tenant.tenant_id, listKeys({ name: 'patients' }))
    await expect(listed).rejects.toMatchObject({ name: 'TamperedRowError' })
  })

  it('is not taken for the newest verification: another entry does not postpone the next one', async () => {
    const { services } = service
    const signal = new AbortController().signal
    expect(await createScheduledVerification(services, { hours: 1 })(signal)).toBeUndefined() // the installation is new
    const sql = answering(services.sql, /\bmax\(id\)/, async () => [{ id: await newestEntry() }])
    const answer = createScheduledVerification({ ...services, sql }, { hours: 1 })(signal)
    expect(await answer).toMatchObject({ invalid: [] })
  })

  it('is not listed as a key of a status', async () => {
    const sql = exchanging(/and status =/, { asked: 'disabled', instead: 'active' })
    const listed = performAsSystem(
      { ...service.services, sql },
      acme.tenant.tenant_id,
      listKeys({ status: 'disabled' }),
    )
    await expect(listed).rejects.toMatchObject({ name: 'TamperedRowError' })
  })

  it('is not listed for an API key that is limited to others', async () => {
    const { services } = service
    const { tenant_id } = acme.tenant
    const state = await services.states.find(tenant_id)
    const apiKey = await state?.findApiKeyById(limited.id)
    if (!state || !apiKey) throw new Error('the scene has no such API key')
    const sql = answering(services.sql, /order by created_at, key_id/, (_, database) =>
      listRows(database, tenant_id, {}),
    )
    const caller = {
      actor: limited.id,
      ip_address: null,
      on_behalf_of: undefined,
      apiKey: { ...apiKey, keys: ['x/*'] },
    }
    const context = { state, caller, services: { ...services, sql }, sql, quotaLeft: 0, allowances: UNLIMITED }
    const { release } = await listKeys({})(context)
    await expect(release({})).rejects.toMatchObject({ name: 'TamperedRowError' })
  })
})
