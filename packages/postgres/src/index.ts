/** The database driver. A bundle or a test run that has the plugin of patch.ts gets it with the changes in `patches`. */
export { default } from 'postgres'
