import { seal } from './actions.mjs'
import { Secret } from './secret.jsx'

export default function Page() {
  return (
    <>
      <form action={seal}>
        <input name="value" />
      </form>
      <Secret />
    </>
  )
}
