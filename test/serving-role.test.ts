// A server whose role may read and write rows, and nothing else: the schema is its owner's.
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { backend, freshDatabase } from './support/database.js'
import { connectTo, runEaas, startEaas } from './support/eaas-process.js'

describe.skipIf(backend() === 'embedded')('a role that may only read and write rows', () => {
  it('serves once the owner of the schema ran eaas migrate, and is told to ask for it before', {
    timeout: 120_000,
  }, async () => {
    const owner = await freshDatabase('role')
    if (owner.backend !== 'postgres') throw new Error('not PostgreSQL')
    const role = `eaas_${randomBytes(6).toString('hex')}`
    const sql = connectTo(owner)
    await sql.unsafe(`create role ${role} login password '${role}'; revoke create on schema public from public`)
    const url = new URL(owner.url)
    url.username = role
    url.password = role
    const database = { ...owner, url: url.href }

    const doctor = await runEaas(['doctor'], { database })
    expect([doctor.code, doctor.stdout]).toEqual([1, expect.stringContaining('run eaas migrate as the owner')])

    expect((await runEaas(['migrate'], { database: owner })).code).toBe(0)
    await sql.unsafe(`grant select, insert, update, delete on all tables in schema public to ${role}`)
    const eaas = await startEaas({ database })
    const { code, stdout } = await eaas.stop()
    expect([code, stdout]).toEqual([0, expect.stringContaining('This is the first start.')])
    expect((await runEaas(['doctor'], { database })).code).toBe(0)

    await sql.unsafe(`drop owned by ${role}; drop role ${role}`)
    await sql.end()
  })
})
