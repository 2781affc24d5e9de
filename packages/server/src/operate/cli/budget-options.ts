/** Budgets of API keys as the command line writes them: `unwrap=600/minute,hash=1000/day`. */
import { BUDGET_KINDS, BUDGET_WINDOWS, type Budgets, wire } from '@eaas/protocol'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { readList } from './command.js'

const ITEM = new RegExp(`^(${BUDGET_KINDS.join('|')})=(\\d{1,15})/(${BUDGET_WINDOWS.join('|')})$`)
const FORM = `per ${BUDGET_WINDOWS.join(' or ')}, such as 'unwrap=600/minute,unwrap=50000/day,hash=1000/day'`

/** The word stays a word, because the parser treats null as a missing value. */
export type BudgetOptions = { budgets?: Budgets | 'none'; whenOver?: 'refuse' | 'expire' }

/** `canRemove` lets `--budgets` say none. */
export function addBudgetOptions(command: Command, { canRemove = false }: { canRemove?: boolean } = {}): Command {
  const read = (text: string) => (canRemove && text === 'none' ? text : readBudgetList(text))
  return command
    .option(
      '--budgets <list>',
      `how many data keys it may unwrap and values it may hash, ${FORM}${canRemove ? ', replacing all that it has, or none' : ' (default: any number)'}`,
      read,
    )
    .addOption(
      new Option(
        '--when-over <what>',
        'with --budgets: what happens when the API key exceeds one (default: refuse)',
      ).choices(['refuse', 'expire']),
    )
    .hook('preAction', (_, action) => {
      const { budgets, whenOver } = action.opts<BudgetOptions>()
      if (whenOver === undefined || (budgets !== undefined && budgets !== 'none')) return
      action.error('error: --when-over needs --budgets, which are set as a whole')
    })
}

/** null for none, undefined if the options say nothing */
export function chosenBudgets({ budgets, whenOver }: BudgetOptions): Budgets | null | undefined {
  if (budgets === undefined) return undefined
  return budgets === 'none' ? null : { ...budgets, ...(whenOver && { when_over: whenOver }) }
}

function readBudgetList(text: string): Budgets {
  const budgets: Budgets = {}
  for (const item of readList(text)) {
    const [, kind, limit, window] = ITEM.exec(item) ?? []
    if (!kind || !window)
      throw new InvalidArgumentError(`${item || 'An empty item'} is no budget; write a list ${FORM}.`)
    const budget = { ...budgets[kind as 'unwrap'] }
    const name = `per_${window as 'minute'}` as const
    if (budget[name] !== undefined) throw new InvalidArgumentError(`It has two budgets of ${kind} a ${window}.`)
    budgets[kind as 'unwrap'] = { ...budget, [name]: Number(limit) }
  }
  const { success, error } = wire.createApiKey.safeParse({ name: 'x', permissions: [], budgets })
  if (!success) throw new InvalidArgumentError(`${wire.describeIssue(error, 'It is not valid')}.`)
  return budgets
}

export function describeBudgets(budgets: Budgets): string {
  const items = BUDGET_KINDS.flatMap((kind) =>
    BUDGET_WINDOWS.flatMap((window) => {
      const limit = budgets[kind]?.[`per_${window}`]
      return limit === undefined ? [] : [`${kind}=${limit}/${window}`]
    }),
  )
  return `${items.join(',')}${budgets.when_over === 'expire' ? ' (then expires)' : ''}`
}
