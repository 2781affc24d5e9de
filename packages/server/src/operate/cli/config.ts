/** `eaas config`: shows the configuration and whether it is valid. Opens no database, and shows no secret. */
import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import { type Config, type Environment, getPort, mergeFile, ROOT_KEY_VARIABLES } from '../../core/config.js'
import { configSchema } from '../../core/config-file.js'
import { readDatabaseUrl } from '../../core/database-url.js'
import { getSetting, NAMES, type Variable } from '../../core/settings.js'
import { providerOf, rootKeyFiles } from '../../root-keys/open-provider.js'
import { readCommandLine } from '../../root-keys/program.js'
import { ASK } from '../../root-keys/shares.js'
import { commandConfig, ENVIRONMENT, JSON_OPTION, SAME_ENVIRONMENT, succeed } from './command.js'
import { examineKeyFile, examineTls } from './examine-files.js'
import { print, printJson, type Result, wrong } from './output.js'

export function addConfig(program: Command): void {
  const config = program
    .command('config')
    .description('Check or show the configuration: variables, and the file of EAAS_CONFIG.')
  config
    .command('check')
    .description(
      'Check the values, and the files of TLS and secrets. Opens no database, runs no program and uses no network: eaas doctor does.',
    )
    .addHelpText('after', ENVIRONMENT)
    .action(() => succeed(check(commandConfig())))
  config
    .command('show')
    .description('Show each setting, and whether a variable, the file or nothing sets it. Secrets are not shown.')
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action(({ json }) => show(commandConfig(), { settings: listSettings(process.env), json }))
  config
    .command('schema')
    .description('Print the JSON Schema of the file of EAAS_CONFIG.')
    .action(() => print(...JSON.stringify(configSchema(), undefined, 2).split('\n')))
}

async function check(config: Config): Promise<boolean> {
  const results: Result[] = []
  if (!config.socket) getPort(config)
  if (config.tls) results.push(await examineTls(config.tls).catch(failed))
  results.push(...(await examineRootKey(config)))
  for (const { ok = true, warning, detail } of results) {
    if (!ok || warning) print(`${ok ? 'WARN ' : 'WRONG'}  ${detail}`)
  }
  const isValid = results.every(({ ok }) => ok !== false) && config.unknownVariables.length === 0
  print(
    isValid
      ? 'The configuration is valid. eaas doctor examines the database and the rest.'
      : 'The configuration is not valid.',
  )
  return isValid
}

/** Uses no program, person or network. */
async function examineRootKey(config: Config): Promise<Result[]> {
  const { rootKey, databaseUrl } = config
  const files = rootKeyFiles(config)
  // The first start on the embedded database creates its own root key.
  if (!rootKey && databaseUrl === undefined && !files.some((file) => existsSync(file))) return []
  const results = await Promise.all(files.map(examineKeyFile))
  if (results.some(({ ok }) => ok === false)) return results
  try {
    if (rootKey?.kind === 'command') readCommandLine(rootKey.value, ROOT_KEY_VARIABLES.command)
    else if (rootKey?.kind !== 'shares' || rootKey.value !== ASK) await providerOf(config)
    return results
  } catch (error) {
    return [...results, failed(error)]
  }
}

function failed(error: unknown): Result {
  return wrong((error as Error).message)
}

interface Setting {
  name: Variable
  value: string | undefined // undefined: nothing sets it
  source: 'variable' | 'file' | 'default'
}

function show({ configFile }: Config, { settings, json }: { settings: Setting[]; json: boolean }): void {
  if (json) {
    printJson({ config_file: configFile ?? null, settings })
    return
  }
  const width = Math.max(...settings.map(({ name }) => name.length))
  for (const { name, value, source } of settings) {
    print(`${source.padEnd(8)}  ${name.padEnd(width)}  ${value ?? getSetting(name).unset ?? 'none'}`)
  }
}

function listSettings(environment: Environment): Setting[] {
  const { merged, fromFile } = mergeFile(environment)
  return NAMES.map((name) => {
    const text = merged[name] || undefined
    const source = text === undefined ? 'default' : fromFile.has(name) ? 'file' : 'variable'
    return { name, value: text === undefined || !getSetting(name).secret ? text : hide(name, text), source }
  })
}

function hide(name: Variable, text: string): string {
  if (name === 'EAAS_ROOT_KEY_TRANSIT') return text.replace(/^.*@/s, '(not shown)@')
  const url = name === 'EAAS_DATABASE_URL' ? readDatabaseUrl(text)?.description : undefined
  return url === undefined ? '(set, not shown)' : `(set, not shown: ${url})`
}
