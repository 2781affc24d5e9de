/** `eaas-audit witness`: cosigns the logs of other installations until a signal stops it. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Command, Option } from 'commander'
import { encodeNoteKey } from '../formats/signed-note.js'
import { listenOn } from '../node/listen.js'
import { createLog, type Log, outliveOutput } from '../node/log.js'
import { isOpenToAll } from '../node/open-to-all.js'
import { readWitnessConfig, WITNESS_VARIABLES, type WitnessConfig } from '../witness/config.js'
import { createWitness, openWitness } from '../witness/directory.js'
import { createWitnessServer } from '../witness/serve.js'
import { WitnessError } from '../witness/state-file.js'
import { createWitnessService } from '../witness/witness.js'
import * as cli from './options.js'
import { print } from './output.js'

const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** How long open requests may take to finish after a signal, in milliseconds. */
const STOP_DEADLINE_MS = 5_000

const FIRST_STEPS = `
First steps:
  eaas-audit witness --create --name witness.example/w1   prints the public key of the new witness
  eaas audit public-key --tree                            of each installation: prints its line for the list of logs
  eaas-audit witness                                      serves; again after each change of the list
Each installation names the key and the URL of the witness in EAAS_WITNESSES: see eaas start --help.`

export function addWitness(program: Command): void {
  program
    .command('witness')
    .description(
      "Cosign the trees of other logs by C2SP's tlog-witness protocol, and refuse those that contradict what was cosigned before.",
    )
    .option(
      '--create',
      'create the key and the state of a new witness in an empty directory, print its public key, and exit',
      false,
    )
    .addOption(new Option('--name <name>', 'name of a new witness, such as witness.example/w1').argParser(cli.readName))
    .addOption(
      new Option(
        '--forget <origin>',
        'forget what was cosigned of a log, and exit: only if its operator has shown you why it lost entries. The log is then cosigned from its beginning',
      ).conflicts(['create', 'name']),
    )
    .addHelpText('after', cli.describeVariables(WITNESS_VARIABLES))
    .addHelpText('after', FIRST_STEPS)
    .action(async ({ create, name, forget }: WitnessOptions, command: Command) => {
      if (create !== (name !== undefined)) command.error("error: '--create' and '--name' belong together")
      const config = readWitnessConfig(process.env)
      for (const variable of config.unknownVariables)
        process.stderr.write(`eaas-audit: the witness has no variable ${variable}; see eaas-audit witness --help\n`)
      if (forget !== undefined) return forgetLog(config, forget)
      if (name === undefined) return serveWitness(config)
      print(encodeNoteKey(await createWitness(config, name)))
    })
}

type WitnessOptions = { create: boolean; name?: string; forget?: string }

/** Removes a log from the state. @throws WitnessError if none of it was cosigned, or a witness is running */
async function forgetLog(config: WitnessConfig, origin: string): Promise<void> {
  const { state, save, release } = await openWitness(config)
  try {
    const seen = state.logs.get(origin)
    if (!seen) throw new WitnessError(`This witness has cosigned nothing of ${origin}.`)
    await save({ ...state, logs: new Map([...state.logs].filter(([other]) => other !== origin)) })
    print(`Forgot ${origin}, which this witness had cosigned through entry ${seen.size}.`)
  } finally {
    await release()
  }
}

async function serveWitness(config: WitnessConfig): Promise<void> {
  outliveOutput()
  const log = createLog(config.logLevel)
  const files = await openWitness(config)
  if (files.keyFile !== undefined && (await isOpenToAll(files.keyFile)))
    log.warn({ file: files.keyFile }, 'everybody on this machine can read or change the key of the witness: chmod 600')
  const events = {
    cosigned: (details: Record<string, unknown>, isNew: boolean) =>
      isNew ? log.info(details, 'cosigned') : log.debug(details, 'cosigned again'),
    contradicted: (details: Record<string, unknown>) =>
      log.warn(
        details,
        'a log signed a tree that was not shown to continue the one cosigned before: keep this line, it may be evidence',
      ),
  }
  const witness = createWitnessService(files, { now: Date.now, events })
  const server = createWitnessServer(witness, log)
  try {
    await listenOn(server, config, { host: 'EAAS_WITNESS_HOST', port: 'EAAS_WITNESS_PORT' })
  } catch (error) {
    await files.release()
    throw error
  }
  stopOnSignal(server, log, files.release)
  const { address, port, family } = server.address() as AddressInfo
  const host = family === 'IPv6' ? `[${address}]` : address
  const names = [...files.logs.keys()].map((origin) => `  ${origin}`)
  print(`The witness is listening on http://${host}:${port}`, `Key: ${encodeNoteKey(files.key)}`, 'Logs:', ...names)
}

function stopOnSignal(server: Server, log: Log, release: () => Promise<void>): void {
  const stop = (signal: NodeJS.Signals) => {
    for (const name of STOP_SIGNALS) process.off(name, stop) // a second signal ends the process at once
    log.info({ signal }, 'stopping')
    setTimeout(() => server.closeAllConnections(), STOP_DEADLINE_MS).unref()
    server.close(() => release().finally(() => process.exit()))
    server.closeIdleConnections()
  }
  for (const name of STOP_SIGNALS) process.on(name, stop)
}
