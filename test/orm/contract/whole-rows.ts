// Rows that are sealed as a whole.
import { expect } from 'vitest'
import { failure } from '../../../packages/sdk/src/test-support/clients.js'
import { leadOf, type Scene } from '../scene.js'
import { type Case, listCases, orRefused } from './cases.js'

const { cases, area } = listCases()

const whole = area('rows that are sealed as a whole')
const notSealedSo = { code: 'E_DECRYPTION', place: { field: 'row_seal' } }
whole('are read back as they were written, and changed', ['insertVault', 'vaultById', 'updateVault'], async (scene) => {
  const { orm, sql, models } = scene
  const [vault, other] = [leadOf(), leadOf({ note: null })]
  for (const one of [vault, other]) {
    await orm.insertVault(one)
    expect(await orm.vaultById(one.id)).toMatchObject(one)
  }
  const changed = { ...vault, mail: 'countess@x.org', note: null }
  await orm.updateVault(vault.id, { mail: changed.mail, note: changed.note })
  expect(await orm.vaultById(vault.id)).toMatchObject(changed)
  const [row] = await sql`select * from vaults where id = ${vault.id}`
  expect(await models.vaults.decrypt(row as never)).toEqual(changed)
})
for (const [title, tamper] of [
  ['a cell that was set to null', ({ sql }, { id }) => sql`update vaults set note = null where id = ${id}`],
  ['an older cell', ({ sql }, { id, older }) => sql`update vaults set mail = ${sql.json(older)} where id = ${id}`],
  [
    'an index that was exchanged',
    ({ sql }, { id, other }) =>
      sql`update vaults set mail_index = (select mail_index from vaults where id = ${other}) where id = ${id}`,
  ],
  ['a seal that was taken away', ({ sql }, { id }) => sql`update vaults set row_seal = null where id = ${id}`],
] as [string, (scene: Scene, rows: { id: string; other: string; older: never }) => Promise<unknown>][]) {
  whole(`are refused with ${title}`, ['insertVault', 'vaultById', 'updateVault'], async (scene) => {
    const { orm, sql } = scene
    const [vault, other] = [leadOf(), leadOf({ mail: 'grace@x.org' })]
    await orm.insertVault(vault)
    await orm.insertVault(other)
    const [before] = await sql`select mail from vaults where id = ${vault.id}`
    await orm.updateVault(vault.id, { mail: 'countess@x.org', note: 'later' })
    await tamper(scene, { id: vault.id, other: other.id, older: before?.mail as never })
    expect(await failure(orm.vaultById(vault.id))).toMatchObject(notSealedSo)
    expect(await orm.vaultById(other.id)).toMatchObject(other)
  })
}
whole('refuse a change of some fields alone', ['insertVault', 'vaultById', 'updateVault'], async ({ orm }) => {
  const vault = leadOf()
  await orm.insertVault(vault)
  expect(await orRefused(orm.updateVault(vault.id, { mail: 'other@x.org' }))).toBe('refused')
  expect(await orm.vaultById(vault.id)).toMatchObject(vault)
})

export const wholeRowCases: readonly Case[] = cases
