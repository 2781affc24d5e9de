/** `backfill --plan`: prints the steps in which to encrypt a table, with the command line of each. */
import { quoteWord } from '@eaas/protocol'
import type { Command } from 'commander'
import type { PlanStep } from './backfill/plan.js'
import { inspect } from './inspect-table.js'
import { ArgumentsError, type Io, print } from './io.js'
import { loaderFor, optionWord } from './model-module.js'
import { type TableOptions, withTable } from './table-command.js'

/** The options of a plan that say what a run does, and not on what: the commands of the plan have their own. */
const OF_A_RUN = ['work', 'dryRun', 'state', 'constrain', 'kit']

/** Prints the steps for the table that the options name. @throws ArgumentsError */
export async function printPlan(
  io: Io,
  command: Command,
  { file, given }: { file: string; given: TableOptions },
): Promise<void> {
  const options = command.options.filter((one) => command.getOptionValueSource(one.attributeName()) === 'cli')
  const stray = options.find((one) => OF_A_RUN.includes(one.attributeName()))
  if (stray) throw new ArgumentsError(`--plan prints each step with its command: leave out ${stray.long}`)
  const words = options.flatMap((one): string[] => {
    const value: unknown = command.getOptionValue(one.attributeName())
    if (one.long === '--plan' || one.long === '--json') return []
    const name = one.long ?? ''
    return value === true ? [name] : [value].flat().map((text) => optionWord(name, String(text)))
  })
  const line = `${loaderFor(file)}npx @eaas/cli backfill ${[quoteWord(file), ...words].join(' ')}`
  const { left, steps } = await withTable(io, file, { ...given, createKey: undefined, mayCallNothing: true }, (open) =>
    open.plan({ command: (more) => `${line} ${more}`, inspect: () => inspect(io, open, { open: false }) }),
  )
  if (given.json) await print(io, JSON.stringify({ table: given.table, left: left ?? null, steps }))
  else
    await print(
      io,
      `${given.table}: ${left ?? 'the columns of the model are not there yet'}`,
      ...steps.flatMap(describeStep),
    )
}

function describeStep({ step, done, run }: PlanStep, at: number): string[] {
  return [`${at + 1}. ${done ? 'done: ' : ''}${step}`, ...(done ? [] : run.map((line) => `     ${line}`))]
}
