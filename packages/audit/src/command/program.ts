/** What all commands of a program share: help, usage errors, and how the program ends. */
import { fstatSync, writeSync } from 'node:fs'
import { Command, Help } from 'commander'
import { FAILED, NOT_VERIFIED, readRepeated, USAGE_ERROR } from './options.js'

/** Creates a program without commands. A usage error ends it with exit code 2, and says where the help is. */
export function createProgram(name: string, { version }: { version: string }): Command {
  return new Command(name)
    .version(version, '--version', 'print the version')
    .showHelpAfterError('Run the command with --help to see its options.')
    .configureHelp({
      // A flag is false by default, which the help does not say.
      optionDescription: (option) =>
        option.defaultValue === false ? option.description : Help.prototype.optionDescription(option),
    })
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : USAGE_ERROR))
}

/** Runs the program; `fail` handles an error. Commands in `serving` go on when their output cannot be written. */
export async function runProgram(
  program: Command,
  { serving, fail }: { serving: readonly string[]; fail: (error: unknown) => void },
): Promise<void> {
  refuseRepeated(program)
  requireAfterUnknown(program)
  writeOutputWhole()
  let isLost = false
  // The reader of the output may stop early, as `head` does. The command still finishes and closes what it opened.
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE' || serving.includes(program.args[0] ?? '')) return
    if (!isLost) process.stderr.write(`${program.name()}: standard output cannot be written (${code})\n`)
    isLost = true
  })
  // Only known at exit: a command sets its code after it printed the verdict.
  process.on('exit', () => {
    if (isLost) process.exitCode = withoutOutput(process.exitCode)
  })
  process.stderr.on('error', () => undefined)
  await program.parseAsync().catch(fail)
}

/**
 * Makes each write to standard output complete, or an error. Node.js writes a chunk to a file with one call and does
 * not check how much was written: on a nearly full disk, the rest would be missing.
 */
function writeOutputWhole(): void {
  const { stdout } = process
  if (!fstatSync(stdout.fd).isFile()) return
  stdout._write = (chunk: Uint8Array, _, done) => {
    try {
      for (let at = 0; at < chunk.length; ) at += writeSync(stdout.fd, chunk, at)
    } catch (error) {
      return done(error as Error)
    }
    done()
  }
}

/** The exit code when the output is lost. A failure keeps its code; nobody saw any other verdict. */
function withoutOutput(code: typeof process.exitCode): number {
  if (code === undefined) return FAILED
  return [FAILED, USAGE_ERROR].includes(Number(code)) ? Number(code) : NOT_VERIFIED
}

/** Refuses a single-value option that is given twice: which value counts would be a guess. */
function refuseRepeated(command: Command): void {
  for (const option of command.options) {
    if (option.isBoolean() || option.parseArg === (readRepeated as typeof option.parseArg)) continue
    let isGiven = false
    command.on(`option:${option.name()}`, () => {
      if (isGiven) command.error(`error: option '${option.flags}' may be given once only`)
      isGiven = true
    })
  }
  for (const below of command.commands) refuseRepeated(below)
}

/** Checks required options after unknown ones: otherwise commander reports a misspelt required option as missing. */
function requireAfterUnknown(program: Command): void {
  // Finds all before changing one, since commands share options.
  const found = withBelow(program).map((command) => ({
    command,
    required: command.options.filter(({ mandatory }) => mandatory),
  }))
  for (const { command, required } of found) {
    for (const option of required) option.makeOptionMandatory(false)
    command.hook('preAction', (_, action) => {
      const missing = required.find((option) => action.getOptionValue(option.attributeName()) === undefined)
      if (missing) action.error(`error: required option '${missing.flags}' not specified`)
    })
  }
}

function withBelow(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withBelow)]
}
