/** Reads a command line: options of `node:util`, each once, and positional arguments. */
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { nearestName } from '@eaas/sdk/maintenance'
import { CsvReader } from './csv.js'
import { ArgumentsError } from './io.js'

export type OptionSpecs = NonNullable<ParseArgsConfig['options']>

/** The options of every command. */
const COMMON: OptionSpecs = { help: { type: 'boolean', short: 'h' }, json: { type: 'boolean' } }

/** The options of the commands that use the service. */
export const SERVICE_OPTIONS = {
  'api-key-file': { type: 'string' },
  'allow-insecure': { type: 'boolean' },
} as const satisfies OptionSpecs

/** The options of the commands that write a file. */
export const OUTPUT_OPTIONS = {
  out: { type: 'string', short: 'o' },
  force: { type: 'boolean', short: 'f' },
} as const satisfies OptionSpecs

/** The values of a command line, by name. */
export class Arguments {
  readonly #values: Readonly<Record<string, unknown>>
  readonly positionals: readonly string[]

  constructor(values: Readonly<Record<string, unknown>>, positionals: readonly string[]) {
    this.#values = values
    this.positionals = positionals
  }

  has(name: string): boolean {
    return this.#values[name] === true
  }

  find(name: string): string | undefined {
    const value = this.#values[name]
    return typeof value === 'string' ? value : undefined
  }

  /** @throws UsageError when the option is missing */
  get(name: string): string {
    const value = this.find(name)
    if (value === undefined || value === '') throw new ArgumentsError(`--${name} is missing`)
    return value
  }

  /** The values of an option that may be repeated. */
  list(name: string): readonly string[] {
    const value = this.#values[name]
    return Array.isArray(value) ? (value as string[]) : []
  }

  /**
   * The names of an option that takes several by commas, and may be repeated. As in CSV, quotes stand around
   * one with a comma. @throws UsageError
   */
  names(name: string): readonly string[] {
    return this.list(name).flatMap((list) => readNames(name, list))
  }
}

function readNames(option: string, list: string): string[] {
  const reader = new CsvReader(',')
  try {
    const [row = [], ...more] = [...reader.push(list), ...reader.end()]
    if (more.length === 0) return row.map((name) => name ?? '')
  } catch {
    // the message below covers it
  }
  throw new ArgumentsError(
    `--${option} takes names with commas between them; one with a comma stands in quotes: '"last, first",email'`,
  )
}

/** Reads the arguments of a command. @throws UsageError */
export function readArguments(argv: readonly string[], specs: OptionSpecs, mostPositionals: number): Arguments {
  if (argv.some((text) => /^--api-?key(=|$)/i.test(text))) {
    throw new ArgumentsError(
      'an API key is never given on the command line, which other users can read: use EAAS_API_KEY or --api-key-file',
    )
  }
  if (argv.some((text) => /^--database-?url(=|$)|^postgres(ql)?:/i.test(text))) {
    throw new ArgumentsError(
      'a database is never given on the command line, which other users can read: use DATABASE_URL',
    )
  }
  const options = { ...COMMON, ...specs }
  const { values, positionals, tokens } = parse(argv, options)
  const given = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []))
  const twice = given.find((name, at) => given.indexOf(name) !== at && options[name]?.multiple !== true)
  if (twice !== undefined) throw new ArgumentsError(`--${twice} may be given once only`)
  if (positionals.length > mostPositionals) {
    const most = mostPositionals === 1 ? 'one file at most' : 'options only'
    throw new ArgumentsError(`this command takes ${most}, got ${positionals.length} arguments`)
  }
  return new Arguments(values, positionals)
}

function parse(argv: readonly string[], options: OptionSpecs) {
  // Of Node.js's errors, which speak of its own ways out, only the names of options are shown.
  const { tokens } = parseArgs({ args: [...argv], options, allowPositionals: true, strict: false, tokens: true })
  for (const token of tokens) if (token.kind === 'option') assertOption(token, options)
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true, tokens: true })
  } catch (error) {
    throw new ArgumentsError(error instanceof Error ? error.message : String(error)) // it names the option, and no value
  }
}

function assertOption(
  {
    name,
    rawName,
    value,
    inlineValue,
  }: { name: string; rawName: string; value?: string | undefined; inlineValue?: boolean | undefined },
  options: OptionSpecs,
): void {
  const option = Object.hasOwn(options, name) ? options[name] : undefined
  if (!option) {
    const near = nearestName(name, Object.keys(options))
    throw new ArgumentsError(`there is no option ${rawName}${near === undefined ? '' : `: did you mean --${near}?`}`)
  }
  if (option.type === 'string' && value === undefined) throw new ArgumentsError(`--${name} needs a value`)
  if (option.type === 'string' && !inlineValue && /^-./.test(value ?? ''))
    throw new ArgumentsError(`--${name} needs a value; one that begins with a dash is given as --${name}=<value>`)
  if (option.type === 'boolean' && value !== undefined) throw new ArgumentsError(`--${name} takes no value`)
}

/** Reads the `name=value` pairs of an option. @throws UsageError */
export function readPairs(option: string, pairs: readonly string[]): Record<string, string> {
  const entries = pairs.map((pair) => {
    const at = pair.indexOf('=')
    if (at < 1) throw new ArgumentsError(`--${option} takes name=value`)
    return [pair.slice(0, at), pair.slice(at + 1)] as const
  })
  const names = entries.map(([name]) => name)
  if (new Set(names).size !== names.length) throw new ArgumentsError(`--${option} names something twice`)
  return Object.fromEntries(entries)
}

/** Reads the pairs of a context; undefined where there are none. @throws UsageError */
export function readContextPairs(pairs: readonly string[]): Record<string, string> | undefined {
  return pairs.length === 0 ? undefined : readPairs('context', pairs)
}
