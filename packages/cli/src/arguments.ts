/** The command line: options that commands share, and checks for what must never be on it. */
import { type Command, Option } from 'commander'
import { CsvReader } from './csv.js'
import { ArgumentsError } from './io.js'

export type ServiceOptions = { apiKeyFile?: string; secretFile?: string; allowInsecure?: boolean }

export interface DecryptingOptions extends ServiceOptions {
  kit?: string
}

export type OutputOptions = { out?: string; force?: boolean; json?: boolean }

const SERVICE_HELP = `
Environment:
  EAAS_URL                URL of the service, as in https://eaas.example.org;
                          http://127.0.0.1:8420 if not set
  EAAS_API_KEY            the API key; --api-key-file takes precedence`

export function addServiceOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--api-key-file <file>', 'a file with the API key, and nothing else')
        .argParser(readKeptPath)
        .helpGroup('The service:'),
    )
    .addOption(
      new Option(
        '--secret-file <file>',
        "a file with the base64 of the application's secret, 32 bytes, which is mixed into all keys",
      )
        .argParser(readKeptPath)
        .helpGroup('The service:'),
    )
    .addOption(
      new Option('--allow-insecure', 'allow http to another machine, which shows the API key to the network').helpGroup(
        'The service:',
      ),
    )
    .addHelpText('after', SERVICE_HELP)
}

export function addDecryptingOptions(command: Command): Command {
  return addServiceOptions(command).addOption(
    new Option(
      '--kit <file>',
      'keys from a decrypted recovery kit, or export of a key, instead of the service; - for standard input',
    ).helpGroup('Without the service:'),
  )
}

export function addOutputOptions(command: Command): Command {
  return command
    .option('-o, --out <file>', 'where to write; - for standard output')
    .option('-f, --force', 'replace an existing file; write binary data to a terminal')
    .option('--json', 'print the result as JSON')
}

/** Reads the path of a file that cannot be standard input: that is the data, or is read only once. @throws ArgumentsError */
export function readKeptPath(text: string): string {
  if (text === '' || text === '-') throw new ArgumentsError('the file must have a name: a stream cannot be used for it')
  return text
}

export function collect(text: string, before: readonly string[] = []): string[] {
  return [...before, text]
}

/** Refuses secrets, and arguments that commander would misread. No message repeats a value. @throws ArgumentsError */
export function checkArguments(argv: readonly string[], program: Command): string[] {
  if (argv.some((text) => /^--api-?key(=|$)/i.test(text)))
    throw new ArgumentsError(
      'an API key is never given on the command line, which other users can read: use EAAS_API_KEY or --api-key-file',
    )
  if (argv.some((text) => /^--database-?url(=|$)|^postgres(ql)?:/i.test(text)))
    throw new ArgumentsError(
      'a database is never given on the command line, which other users can read: use DATABASE_URL',
    )
  const options = program.commands.find((command) => command.name() === argv[0])?.options ?? []
  const end = argv.indexOf('--')
  return argv.map((text, at) => {
    if (!text.startsWith('-') || (end !== -1 && at >= end)) return text
    const [flag = '', value] = text.split(/=(.*)/s)
    const option = options.find(({ long, short }) => flag === long || flag === short)
    if (!option) return text.startsWith('--') ? flag : text
    if (option.isBoolean() && value !== undefined) throw new ArgumentsError(`${flag} takes no value`)
    if (option.required && value === undefined && /^-./.test(argv[at + 1] ?? ''))
      throw new ArgumentsError(`${flag} needs a value; one that begins with a dash is given as ${option.long}=<value>`)
    return text
  })
}

/** Refuses a single-value option given twice, then a missing one. Last, since commander reports a misspelt one as missing. */
export function checkOptions(command: Command): void {
  for (const option of command.options) {
    if (option.isBoolean() || option.parseArg === (collect as typeof option.parseArg)) continue
    let isGiven = false
    command.on(`option:${option.name()}`, () => {
      if (isGiven) throw new ArgumentsError(`${option.long} may be given once only`)
      isGiven = true
    })
  }
  const required = command.options.filter(({ mandatory }) => mandatory)
  for (const option of required) option.makeOptionMandatory(false)
  command.hook('preAction', () => {
    const missing = required.find((option) => !command.getOptionValue(option.attributeName())?.length)
    if (missing) throw new ArgumentsError(`${missing.long} is missing`)
  })
}

/** Reads names, separated by commas and quoted as in CSV, of an option that may be repeated. @throws ArgumentsError */
export function readNames(option: string, lists: readonly string[] = []): string[] {
  return lists.flatMap((list) => {
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
  })
}

export function readPairs(option: string, pairs: readonly string[] = []): Record<string, string> {
  const entries = pairs.map((pair) => {
    const at = pair.indexOf('=')
    if (at < 1) throw new ArgumentsError(`--${option} takes name=value`)
    return [pair.slice(0, at), pair.slice(at + 1)] as const
  })
  const names = entries.map(([name]) => name)
  if (new Set(names).size !== names.length) throw new ArgumentsError(`--${option} names something twice`)
  return Object.fromEntries(entries)
}

export function readContextPairs(pairs: readonly string[] = []): { context?: Record<string, string> } {
  return pairs.length === 0 ? {} : { context: readPairs('context', pairs) }
}
