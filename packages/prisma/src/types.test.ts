import { describe, expect, it } from 'vitest'
import { isExact, readTypes, spell } from './types.js'

const SCHEMA = `
model User {
  id     String @id @default("// @db.Text") @db.Uuid
  code   String @db.Char(5) // @db.Text
  mail   String @db.Citext
  name   String // @db.Citext
  number BigInt
}
enum Kind {
  name @map("@db.Uuid")
}
model Post {
  id String @id
}`
const typesOf = (activeProvider: string) =>
  readTypes({ _engineConfig: { inlineSchema: SCHEMA, activeProvider } }).get('User')
const field = (name: string, type = 'String') => ({ name, type, kind: 'scalar' })

describe('the types of a Prisma schema', () => {
  it.each([
    ['postgresql', ['id', 'name']],
    ['sqlite', ['id', 'name']],
    ['mysql', []],
    ['sqlserver', []],
  ])('are found in one spelling on %s: %j', (provider, exact) => {
    const types = typesOf(provider)
    expect(['id', 'code', 'mail', 'name'].filter((name) => isExact(types, field(name)))).toEqual(exact)
    expect(isExact(types, field('number', 'BigInt'))).toBe(true)
    expect(isExact(types, field('at', 'DateTime'))).toBe(false)
  })
  it.each([
    ['id String @id @db.Uuid', ['id']],
    ['id String // @id', []],
    ['@@id([user_id(length: 10, sort: Desc), at(sort: Desc)])', ['user_id', 'at']],
    ['@@id(name: "one", fields: [at, number])', ['at', 'number']],
  ])('say what identifies a row: %s', (line, ids) => {
    const schema = `model Note {\n  ${line}\n  text String\n}\nmodel Other {\n  name String @unique\n}`
    const types = readTypes({ _engineConfig: { inlineSchema: schema } })
    expect(['Note', 'Other'].map((name) => types.get(name)?.ids)).toEqual([ids, []])
  })
  it('are read in every spelling that Prisma takes', () => {
    const usual = `model Note {
  id String @id @default(uuid(7))
  code String? @unique @default("x") @db.VarChar(100)
  tags String[]
  user_id String
  place_id Int @default(autoincrement())
  user User @relation("wrote", fields: [user_id, place_id], references: [id, place], onDelete: Cascade)
  @@unique([code, user_id], name: "one")
  @@schema("notes")
}`
    const spelled = `model Note {
  /* id Int @id */
  id String@id@default ( value : uuid ( 7 ) )
  code String ? @unique @default ("x")@db.VarChar( 100 ) // "
  tags String [ ] // } and "@id
  user_id String
  place_id Int @default(value: autoincrement())
  user User @relation (references: [ id,place ], name: "wrote", fields : [user_id , place_id], onDelete: Cascade)
  @@unique ( name : "one" , fields: [code, user_id])
  @@schema ( "notes" )
}
/*
model Note {
  id Int @id
}
*/`
    const read = (inlineSchema: string) => readTypes({ _engineConfig: { inlineSchema } }).get('Note')
    expect(read(spelled)).toEqual(read(usual))
    expect(read(spelled.replaceAll('\n', '\r\n'))).toEqual(read(usual))
    expect(read(usual)).toMatchObject({
      ids: ['id'],
      filled: new Set(['id', 'code', 'place_id']),
      references: new Map([
        [
          'user',
          [
            { own: 'user_id', other: 'id' },
            { own: 'place_id', other: 'place' },
          ],
        ],
      ]),
      defaults: new Map([
        ['id', { name: 'uuid', argument: '7' }],
        ['place_id', { name: 'autoincrement', argument: '' }],
      ]),
      optional: new Set(['code']),
      lists: new Set(['tags']),
      lengths: new Map([['code', 100]]),
      uniques: new Map([['one', ['code', 'user_id']]]),
      schema: 'notes',
    })
  })
  it('are unknown without the text of the schema', () => {
    expect(isExact(readTypes({}).get('User'), field('name'))).toBe(false)
  })
  it('say how a value is spelled', () => {
    const types = typesOf('postgresql')
    const uuid = '0d6f7e0a-1b2c-4d3e-8f90-a1b2c3d4e5f6'
    for (const other of [uuid.toUpperCase(), `{${uuid}}`, `urn:uuid:${uuid}`, uuid.replaceAll('-', '')]) {
      expect(spell(types, field('id'), other)).toBe(uuid)
      expect(spell(types, field('name'), other)).toBe(other)
    }
    for (const code of ['ab', 'ab ', 'ab       ']) expect(spell(types, field('code'), code)).toBe('ab   ')
    expect(spell(types, field('code'), 'abcde')).toBe('abcde')
    expect(spell(typesOf('mysql'), field('code'), 'ab')).toBe('ab')
    expect(spell(types, field('number', 'BigInt'), '+007')).toBe(7n)
    expect(spell(types, field('name'), '007')).toBe('007')
    expect(spell(types, field('id'), 'no uuid')).toBe('no uuid')
  })
})
