/** The models of Prisma schemas for PostgreSQL, and the columns that an index adds. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { addSealedChecks, makeSealedChecks } from '../backfill/sealed-checks.js'
import { resolvePath } from '../files.js'
import { type Io, UsageError } from '../io.js'
import { type Application, type Column, type FoundTable, guide } from './application.js'

const MODEL = /^model\s+(?<name>\w+)\s*\{(?<body>.*?)^\}/gms
const FIELD = /^(?<before>\s+(?<name>\w+)[^\S\n]+)(?<type>\w+)(?<arity>\[\]|\?)?(?<attributes>.*)$/
const PROVIDER = /^datasource\s+\w+\s*\{[^}]*provider\s*=\s*"(\w+)"/m

export function readPrisma({ sources }: Application): FoundTable[] {
  const schemas = [...sources].filter(([path]) => path.endsWith('.prisma'))
  const provider = schemas.flatMap(([, text]) => PROVIDER.exec(text)?.[1] ?? []).find((one) => one !== 'postgresql')
  if (provider) throw new UsageError(`init knows PostgreSQL, and the schema is of ${provider}: see ${guide('prisma')}`)
  return schemas.flatMap(([path, text]) =>
    [...text.matchAll(MODEL)].map(({ groups: { name = '', body = '' } = {} }): FoundTable => {
      const fields = body.split('\n').map((line) => FIELD.exec(line)?.groups ?? {})
      const id = fields.find(({ attributes }) => /@id\b/.test(attributes ?? ''))?.name
      const keys = namesIn([...body.matchAll(/@relation\([^)]*fields:\s*\[([^\]]*)\]/g)].map(([, list]) => list).join())
      return {
        ...{
          orm: 'prisma',
          name,
          path,
          columns: fields.filter((field) => field.name).map((field) => readField(field, keys)),
        },
        stored: /@@map\("([^"]+)"/.exec(body)?.[1] ?? name,
        id: id ? [id] : namesIn(/@@id\(\[([^\]]*)\]/.exec(body)?.[1]),
      }
    }),
  )
}

function readField(
  { name = '', type = '', arity = '', attributes = '' }: Record<string, string>,
  keys: string[],
): Column {
  const native = /@db\.(?!Text\b)\w+/.exec(attributes)?.[0]
  const reasons = [
    keys.includes(name) && 'is the key of a relation',
    /@id\b/.test(attributes) && 'is the id',
    (type !== 'String' || arity === '[]') && `is ${type}${arity}: init takes String, ${guide('prisma')} all others`,
    /@default\b/.test(attributes) && 'has a default, which would be stored as it is',
    native && `is ${native}, which may be too short for an encrypted value: make it @db.Text`,
  ]
  return {
    ...{ name, isNullable: arity === '?', isUnique: /@unique\b/.test(attributes) },
    stored: /@map\("([^"]+)"/.exec(attributes)?.[1] ?? name,
    refusal: reasons.find((reason) => typeof reason === 'string'),
    index: { name: `${name}_index`, stored: `${name}_index` },
  }
}

function namesIn(list = ''): string[] {
  return list.match(/\w+/g) ?? []
}

/** Adds the columns of indexes to the schema. */
export function addPrismaColumns({ files, byHand }: Application, table: FoundTable, columns: readonly Column[]): void {
  const { path } = table
  const text = files.get(path) ?? ''
  const model = findModel(text, table)
  const lines = model.split('\n').flatMap((line) => {
    const { before = '', name: field } = FIELD.exec(line)?.groups ?? {}
    const column = columns.find((one) => one.name === field)
    if (!column) return line
    const indent = before.slice(0, before.search(/\S/))
    const added = `${`${indent}${column.index.name}`.padEnd(before.length - 1)} String?${column.isUnique ? ' @unique' : ''}`
    return [line, line.endsWith('\r') ? `${added}\r` : added]
  })
  lines.splice(-1, 0, ...columns.filter(({ isUnique }) => !isUnique).map(({ index }) => `  @@index([${index.name}])`))
  files.set(
    path,
    text.replace(model, () => lines.join('\n')),
  )
  byHand.push('npx prisma generate')
}

/**
 * Adds a migration if the application has migrations: of the columns of indexes, and of the constraints by which the
 * database refuses plaintext.
 */
export function addPrismaMigration(
  io: Io,
  { files, byHand }: Application,
  { table, columns, lacking }: { table: FoundTable; columns: readonly Column[]; lacking: readonly Column[] },
): void {
  const { stored, path } = table
  const migrations = join(dirname(path), 'migrations')
  const isOwn = /@@schema\(/.test(findModel(files.get(path) ?? '', table)) // Prisma writes it itself
  if (!existsSync(resolvePath(io, migrations))) {
    if (lacking.length > 0) byHand.push('npx prisma db push, or npx prisma migrate dev')
    return
  }
  if (lacking.length > 0 || !isOwn) byHand.push('npx prisma migrate dev')
  if (isOwn) return
  const statements = lacking.map(({ index, isUnique }) => {
    const quoted = `"${stored}_${index.stored}_${isUnique ? 'key' : 'idx'}"`
    return `ALTER TABLE "${stored}" ADD COLUMN "${index.stored}" TEXT;\nCREATE ${isUnique ? 'UNIQUE ' : ''}INDEX ${quoted} ON "${stored}"("${index.stored}");\n`
  })
  const sealed = columns.map((one) => ({ column: one.stored, path: [], format: 'text', type: 'text' }) as const)
  const checks = addSealedChecks(stored, makeSealedChecks('postgresql', stored, sealed))
  const stamp = new Date().toISOString().replace(/\D/g, '').slice(0, 14)
  files.set(join(migrations, `${stamp}_encrypt_${stored}`, 'migration.sql'), [...statements, checks].join(''))
}

function findModel(text: string, { name }: FoundTable): string {
  return [...text.matchAll(MODEL)].find(({ groups }) => groups?.name === name)?.[0] ?? ''
}
