// Drives Chromium with a page that uses MQTT.js, as a dashboard would. It prints what the page tells, a line each, and
// ends when its input does.
//
// usage: node browser.js CHROMIUM PAGE-URL STRANGER-URL BROKER-URL
//
// STRANGER-URL is the same page by an origin that the broker has not invited.
'use strict'

const { chromium } = require('playwright-core')

const [executablePath, page, stranger, broker] = process.argv.slice(2)

async function main () {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
  const open = async url => {
    const tab = await browser.newPage()
    tab.on('console', message => console.log(message.text()))
    tab.on('pageerror', error => console.log('error', String(error)))
    await tab.goto(url)
    return tab
  }
  await (await open(stranger)).evaluate(url => window.tryOnce(url), broker)
  await (await open(page)).evaluate(url => window.start(url), broker)
  await new Promise(resolve => process.stdin.on('end', resolve).resume())
  await browser.close()
}

main().catch(error => {
  console.error(String(error))
  process.exit(1)
})
