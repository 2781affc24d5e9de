/** The console: signs in, and shows the page that the URL names. */
import { render } from 'preact'
import { App } from './app.js'

const root = document.querySelector('#app')
if (root) render(<App />, root)
