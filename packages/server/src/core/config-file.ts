/**
 * The file of EAAS_CONFIG: the settings of the variables as JSON, each under its name in lower case without EAAS_.
 * Settings are turned into their variables, so that one reader checks all values.
 */
import { closeSync, openSync, readFileSync } from 'node:fs'
import * as z from 'zod/mini'
import { findForeign } from './own-file.js'

/** What the file's schema is made from. */
export interface Settings {
  /** every variable with its text */
  variables: Readonly<Record<string, string>>
  numbers: Readonly<Record<string, { least: number; most: number }>>
  choices: Readonly<Record<string, readonly string[]>>
  /** separated by commas in the variable */
  lists: readonly string[]
  /** a program and its arguments */
  programs: readonly string[]
  /** which the file must not hold: it names a file for each instead */
  secrets: readonly string[]
}

/** Thrown when the file cannot be used. The message names the setting, never its value. */
export class ConfigFileError extends Error {
  override readonly name = 'ConfigFileError'
}

/** The name of a variable's setting in the file. */
export function settingOf(variable: string): string {
  return variable.replace(/^EAAS_/, '').toLowerCase()
}

const ITEM = z.string().check(z.regex(/^[^,]+$/))

function schemaOf({ variables, numbers, choices, lists, programs, secrets }: Settings) {
  const typeOf = (name: string): z.ZodMiniType => {
    const number = numbers[name]
    if (number) return z.int().check(z.minimum(number.least), z.maximum(number.most))
    if (choices[name]) return z.enum(choices[name] as [string, ...string[]])
    if (lists.includes(name)) return z.array(ITEM)
    const text = z.string().check(z.minLength(1))
    return programs.includes(name) ? z.union([text, z.array(z.string()).check(z.minLength(1))]) : text
  }
  const names = Object.keys(variables).filter((name) => !secrets.includes(name) && name !== 'EAAS_CONFIG')
  const describe = (name: string) => z.optional(typeOf(name)).check(z.describe(variables[name] ?? ''))
  const known = Object.fromEntries(names.map((name) => [settingOf(name), describe(name)]))
  return z.strictObject({ $schema: z.optional(z.string()), ...known })
}

/** The JSON Schema of the file. */
export function configSchema(settings: Settings): object {
  return {
    ...z.toJSONSchema(schemaOf(settings), { target: 'draft-2020-12' }),
    title: 'Configuration of eaas',
  }
}

/** Reads the file as the variables that it stands for. @throws ConfigFileError */
export function readConfigFile(path: string, settings: Settings): Record<string, string> {
  const parsed = schemaOf(settings).safeParse(readJson(path))
  if (!parsed.success) throw new ConfigFileError(describeFault(path, parsed.error.issues[0], settings))
  const values = Object.entries(parsed.data).filter(([name, value]) => name !== '$schema' && value !== undefined)
  return Object.fromEntries(
    values.map(([name, value]) => {
      const variable = `EAAS_${name.toUpperCase()}`
      return [variable, textOf(value, settings.programs.includes(variable))]
    }),
  )
}

function textOf(value: unknown, isProgram: boolean): string {
  if (!Array.isArray(value)) return String(value)
  return isProgram ? JSON.stringify(value) : value.join(',')
}

function readJson(path: string): unknown {
  let text: string
  let file: number | undefined
  try {
    file = openSync(path, 'r')
    text = readFileSync(file, 'utf8')
    const foreign = findForeign(path, file) // who writes the file names programs that the server executes
    if (foreign !== undefined) throw new ConfigFileError(`${foreign} (EAAS_CONFIG)`)
  } catch (error) {
    if (error instanceof ConfigFileError) throw error
    throw new ConfigFileError(
      `EAAS_CONFIG names a file that cannot be read (${(error as NodeJS.ErrnoException).code}): ${path}`,
    )
  } finally {
    if (file !== undefined) closeSync(file)
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new ConfigFileError(`${path} (EAAS_CONFIG) is not JSON`) // the parser's own message quotes the file
  }
}

function describeFault(path: string, issue: z.core.$ZodIssue | undefined, settings: Settings): string {
  const [key] = issue?.code === 'unrecognized_keys' ? issue.keys : []
  if (key !== undefined) {
    const isSecret = settings.secrets.some((name) => settingOf(name) === key)
    return isSecret
      ? `${path} (EAAS_CONFIG) holds ${key}, which is a secret: name a file with it by ${key}_file`
      : `${path} (EAAS_CONFIG) has no setting ${key}: see eaas config schema`
  }
  const [name, ...items] = (issue?.path ?? []).map(String)
  if (name === undefined) return `${path} (EAAS_CONFIG) must be a JSON object`
  const place = items.length > 0 ? `${name}, item ${items.join('.')},` : name
  return `${place} in ${path} (EAAS_CONFIG) must be ${expectedOf(`EAAS_${name.toUpperCase()}`, settings)}`
}

function expectedOf(variable: string, { numbers, choices, lists, programs }: Settings): string {
  const number = numbers[variable]
  if (number) return `a whole number from ${number.least} to ${number.most}, without quotation marks`
  if (choices[variable]) return `one of ${choices[variable].join(', ')}`
  if (lists.includes(variable)) return 'a list of texts without commas, such as ["a", "b"]'
  return programs.includes(variable) ? 'a text, or a list of a program and its arguments' : 'a text that is not empty'
}
