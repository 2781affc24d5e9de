/** The console: signs in, and shows the page that the URL names. */
import { render } from 'preact'
import { App } from './app.js'
import { signOut } from './session.js'

const root = document.querySelector('#app')
if (root) render(<App />, root)
// Some browsers keep a page after it was left, with its memory, and show it again.
addEventListener('pagehide', signOut)
