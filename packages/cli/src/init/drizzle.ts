/** The tables of Drizzle schemas, and the columns that an index adds. */
import { type Application, type Column, type FoundTable, guide } from './application.js'
import { readBrackets } from './source-text.js'

const TABLE = /^(?:export )?const (?<name>\w+) = pgTable\(\s*['"`](?<stored>[^'"`]+)['"`],\s*(?:\(\w+\) => \()?(?=\{)/gm
const PROPERTY =
  /^(?<before>(?:\s|\/\/.*\n)*)(?<name>\w+):\s*(?<callee>[\w.]+)\(\s*(?:['"`](?<stored>[^'"`]+)['"`])?(?<rest>.*)$/s
/** Calls with which the adapter's work, or the stored value, differs from that of plain text. */
const NOT_PLAIN = /\.(primaryKey|references|array|\$?default\w*|\$onUpdate\w*|\$type|generated\w*)\b/

interface Property {
  column: Column
  /** What makes a column of text: `text`, or the name that the source has for it. */
  callee: string
  /** The blanks before it. */
  indent: string
  isNamed: boolean
  /** The position after its last character. */
  end: number
  rest: string
}

export function readDrizzle({ sources }: Application): FoundTable[] {
  return [...sources].flatMap(([path, text]) =>
    [...text.matchAll(TABLE)].map((found): FoundTable => {
      const properties = readProperties(text, found.index + found[0].length)
      const ids = properties.filter(({ rest }) => /\.primaryKey\(/.test(rest)).map(({ column }) => column.name)
      const { name = '', stored = '' } = found.groups ?? {}
      return { orm: 'drizzle', name, stored, path, columns: properties.map(({ column }) => column), id: ids }
    }),
  )
}

function readProperties(source: string, at: number): Property[] {
  return readBrackets(source, at).parts.flatMap(({ begin, text }): Property[] => {
    const { before = '', name, callee = '', stored, rest = '' } = PROPERTY.exec(text)?.groups ?? {}
    if (name === undefined) return []
    const isText = /(^|\.)text$/.test(callee) || new RegExp(`\\btext as ${callee}\\b`).test(source)
    const not = isText ? NOT_PLAIN.exec(rest)?.[1] : `${callee}()`
    const column = {
      ...{ name, stored: stored ?? name, isNullable: !/\.notNull\(/.test(rest), isUnique: /\.unique\(/.test(rest) },
      refusal: not && `has ${not}: init takes plain text(), ${guide('drizzle')} all others`,
      index: { name: `${name}Index`, stored: stored === undefined ? `${name}Index` : `${stored}_index` },
    }
    const indent = /\n[^\S\n]*$/.exec(before)?.[0] ?? ' '
    return [{ column, callee, indent, isNamed: stored !== undefined, end: begin + text.trimEnd().length, rest }]
  })
}

/** Adds the columns of indexes to the schema. */
export function addDrizzleColumns({ files, byHand }: Application, table: FoundTable, columns: readonly Column[]): void {
  const { name, stored, path } = table
  let text = files.get(path) ?? ''
  const found = [...text.matchAll(TABLE)].find(({ groups }) => groups?.name === name)
  const properties = readProperties(text, (found?.index ?? 0) + (found?.[0].length ?? 0))
  const quote = found?.[0].includes('"') ? '"' : "'"
  for (const { column, callee, indent, isNamed, end } of properties.reverse()) {
    if (!columns.some((one) => one.name === column.name)) continue
    const { index, isUnique } = column
    const added = `${index.name}: ${callee}(${isNamed ? quote + index.stored + quote : ''})${isUnique ? '.unique()' : ''}`
    const remark = /^,[^\S\n]*\/\/[^\n]*/.exec(text.slice(end))?.[0] // it belongs to the line
    const at = end + (remark?.length ?? 0)
    text = `${text.slice(0, at)}${remark ? '' : ','}${indent}${added}${remark ? ',' : ''}${text.slice(at)}`
    if (!isUnique)
      byHand.push(
        `in ${path}: index('${stored}_${index.stored}').on(table.${index.name}), in the third argument of pgTable()`,
      )
  }
  files.set(path, text)
  byHand.push('npx drizzle-kit generate, and npx drizzle-kit migrate')
}
