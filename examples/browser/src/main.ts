// The page: forms in, table and panels out.
import { addCustomer, listCustomers, type Session, signIn, watch } from './api.js'
import { type Customer, openCustomers } from './customers.js'
import { find } from './dom.js'
import { showLive } from './panels.js'
import { clearRows, showRows } from './table.js'

const customerForm = find('#customer', HTMLFormElement)
const searchForm = find('#search', HTMLFormElement)
const showAll = find('#search [type=reset]', HTMLButtonElement)
const users = find('#users', HTMLFieldSetElement)
const status = find('#status', HTMLElement)
const sealedNote = find('#sealed', HTMLElement)

let customers: ReturnType<typeof openCustomers> | undefined
let searchedFor: string | undefined
/** One request at a time, so that the page shows the answer to the last one, for the user who is signed in then. */
let acting = Promise.resolve()

users.addEventListener('change', () => {
  const { value } = find('#users input:checked', HTMLInputElement)
  act(() => enter(value))
})
customerForm.addEventListener('submit', (event) => {
  event.preventDefault()
  act(save, customerForm)
})
searchForm.addEventListener('submit', (event) => {
  event.preventDefault()
  act(async () => {
    const email = fieldOf(searchForm, 'email')
    searchedFor = email === '' ? undefined : await opened().index(email)
    await refresh()
  }, searchForm)
})
searchForm.addEventListener('reset', () => {
  searchedFor = undefined
  act(refresh)
})
find('#users [value=ada]', HTMLInputElement).checked = true
act(async () => {
  await enter('ada')
  watch(showLive)
})

async function enter(name: string): Promise<void> {
  customers?.close()
  customers = undefined
  clearRows()
  const session = await signIn(name)
  customers = openCustomers(session)
  describeRights(session)
  await refresh()
}

async function save(): Promise<void> {
  const customer: Customer = {
    name: fieldOf(customerForm, 'name'),
    email: fieldOf(customerForm, 'email'),
    phone: fieldOf(customerForm, 'phone'),
    note: fieldOf(customerForm, 'note'),
  }
  await addCustomer(await opened().seal(customer))
  customerForm.reset()
  searchForm.reset() // and so shows all of them
  status.textContent = 'Saved. What left this page is on record below.'
  find('#customer input', HTMLInputElement).focus()
}

async function refresh(): Promise<void> {
  const rows = await opened().open(await listCustomers(searchedFor))
  showRows(rows)
  showAll.hidden = searchedFor === undefined
}

function describeRights({ user }: Session): void {
  sealedNote.hidden = user.may_read
  sealedNote.textContent = `${user.name} may not decrypt: the broker refuses to unwrap data keys, and the application has ciphertext only. What ${user.name} adds can be read here until the page is left.`
}

function opened(): ReturnType<typeof openCustomers> {
  if (!customers) throw new Error('nobody is signed in')
  return customers
}

/** Does the work in its turn, with the form disabled meanwhile, and shows an error if it fails. */
function act(work: () => Promise<void>, form?: HTMLFormElement): void {
  const buttons = [...(form?.querySelectorAll('button') ?? [])]
  for (const button of buttons) button.disabled = true
  status.textContent = ''
  delete status.dataset.failed
  acting = acting
    .then(work)
    .catch((error: unknown) => {
      status.textContent = error instanceof Error ? error.message : 'Something went wrong.'
      status.dataset.failed = 'true'
    })
    .finally(() => {
      for (const button of buttons) button.disabled = false
    })
}

function fieldOf(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name)
  return typeof value === 'string' ? value.trim() : ''
}
