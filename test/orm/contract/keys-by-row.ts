// A model whose rows have a key each.
import { expect } from 'vitest'
import { fromText } from '../../../packages/sdk/src/index.js'
import { failure } from '../../../packages/sdk/src/test-support/clients.js'
import { type Person, personOf, type Scene } from '../scene.js'
import { type Case, listCases, refused } from './cases.js'

const { cases, area } = listCases()

const keyed = area('a key for each row')
const writePeople = async ({ orm, newKey }: Scene) => {
  const people = [personOf(await newKey(), { name: 'Ada' }), personOf(await newKey(), { name: 'Ben' })]
  for (const person of people) await orm.insertPerson(person)
  return people as [Person, Person]
}
const byName = (one: Person, other: Person) => (one.name < other.name ? -1 : 1)
keyed('seals each under its own, and opens all', ['insertPerson', 'people'], async (scene) => {
  const people = await writePeople(scene)
  expect((await scene.orm.people()).sort(byName)).toEqual(people)
  const rows = await scene.sql`select key_id, name from people`
  expect(rows.map(({ key_id, name }) => fromText(String(name)).key_id === key_id)).toEqual([true, true])
})
keyed('opens some columns with the one that tells the key', ['insertPerson', 'namesOfPeople'], async (scene) => {
  const people = await writePeople(scene)
  const names = people.map(({ id, key_id, name }) => ({ id, key_id, name }))
  expect((await scene.orm.namesOfPeople()).sort((one, other) => (one.name < other.name ? -1 : 1))).toEqual(names)
})
keyed('returns a changed row opened', ['insertPerson', 'updatePersonReturning'], async (scene) => {
  const [, ben] = await writePeople(scene)
  expect(await scene.orm.updatePersonReturning?.(ben.id, ben.key_id, { name: 'Benjamin' })).toEqual({
    ...ben,
    name: 'Benjamin',
  })
})
keyed('refuses a key that is computed', ['insertPerson', 'computePerson', 'people'], async (scene) => {
  const people = await writePeople(scene)
  await refused(scene.orm.computePerson(people[0].id, 'key_id'), /people\.key_id must not change/)
  expect((await scene.orm.people()).sort(byName)).toEqual(people)
})
keyed(
  'seals a change where the condition names the key',
  ['insertPerson', 'updatePersonOfKey', 'people'],
  async (scene) => {
    const [ada, ben] = await writePeople(scene)
    await scene.orm.updatePersonOfKey(ada.id, ada.key_id, { name: 'Countess' })
    expect((await scene.orm.people()).sort(byName)).toEqual([ben, { ...ada, name: 'Countess' }])
  },
)
keyed(
  'seals a change under the key of the row that it finds',
  ['insertPerson', 'updatePerson', 'people'],
  async (scene) => {
    const people = await writePeople(scene)
    await scene.orm.updatePerson(people[0].id, { name: 'Aden' })
    people[0].name = 'Aden'
    expect((await scene.orm.people()).sort(byName)).toEqual(people)
    await scene.orm.updatePerson(people[0].id, { city: 'Rome' })
    expect((await scene.orm.people()).sort(byName)).toEqual([{ ...people[0], city: 'Rome' }, people[1]])
  },
)
keyed(
  'refuses to give a row another key',
  ['insertPerson', 'updatePerson', 'updatePersonOfKey', 'people'],
  async (scene) => {
    const people = await writePeople(scene)
    const [{ id, key_id }, other] = people
    for (const given of [other.key_id, other.key_id.toUpperCase(), null]) {
      for (const more of [{}, { name: 'x' }]) {
        const changes = { key_id: given as string, ...more }
        await refused(scene.orm.updatePerson(id, changes), /people\.key_id must not change/)
        await refused(scene.orm.updatePersonOfKey(id, key_id, changes), /people\.key_id must not change/)
      }
    }
    await scene.orm.updatePersonOfKey(id, key_id, { key_id, name: 'Ada' })
    expect((await scene.orm.people()).sort(byName)).toEqual(people)
  },
)
keyed(
  'keeps the key of a row whose column is missing in the condition',
  ['insertPerson', 'updatePerson', 'computePerson', 'people'],
  async (scene) => {
    const [here, elsewhere] = [await scene.newKey(), await scene.newKey()]
    const orm = await scene.keyedBy(({ city }) => (city === 'London' ? here : elsewhere))
    const person = personOf(here)
    await orm.insertPerson(person)
    for (const changes of [{ city: 'Rome' }, { city: 'Rome', name: 'x' }]) {
      await refused(orm.updatePerson(person.id, changes), /people\.city must not change/)
    }
    await refused(orm.computePerson(person.id, 'city'), /people\.city must not change/)
    await orm.updatePerson(person.id, { name: 'Aden' })
    expect(await orm.people()).toEqual([{ ...person, name: 'Aden' }])
  },
)
keyed(
  'seals an upsert under the key of the row that it finds',
  ['insertPerson', 'upsertPerson', 'people'],
  async (scene) => {
    const people = await writePeople(scene)
    const [ada, ben] = people
    await scene.orm.upsertPerson({ ...ada, key_id: ben.key_id, name: 'Aden' })
    expect((await scene.orm.people()).sort(byName)).toEqual([{ ...ada, name: 'Aden' }, ben])
  },
)
keyed('does not open a row under the key of another', ['insertPerson', 'people'], async (scene) => {
  const [ada, ben] = await writePeople(scene)
  await scene.sql`update people set key_id = ${ben.key_id} where id = ${ada.id}`
  expect((await failure(scene.orm.people())).code).toBe('E_DECRYPTION')
})

export const keyByRowCases: readonly Case[] = cases
