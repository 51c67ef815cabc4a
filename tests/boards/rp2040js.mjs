// A Pico in rp2040js, an emulator of others, for a test that talks to it in lines of JSON.
//
//     node rp2040.mjs RP2040JS
//
// RP2040JS: the package's index.js. Each line of the standard input is a command, each line of the
// output its answer. The boot ROM is the one that mcutrain's own virtual board has, whose functions
// are traps that this file carries out. Time stands still between commands.
import fs from 'node:fs';
import readline from 'node:readline';

const { RP2040 } = await import(process.argv[2]);

const CLOCK_HZ = 125_000_000;
const TICK_CYCLES = 64;
const FLASH = 0x10000000;
const FLASH_BYTES = 2 << 20;
const SECTOR = 4096;
const BOOT2_BYTES = 256;
const BOOT2_RUNS_AT = 0x20041f00;
const SSI_STATUS = 0x28;
const SSI_DATA = 0x60;
const ROM_END = 0x4000;
const DPRAM = 0x50100000;
const EP0_IN = 0x80;
const EP0_OUT = 0x84;
const EP2_IN = 0x90;
const EP2_OUT = 0x94;
const AVAILABLE = 1 << 10;
const STALL = 1 << 11;
const DATA1 = 1 << 13;
const PULLUP_EN = 1 << 16;
const PACKET_BYTES = 64;

const hex = (bytes) => Buffer.from(bytes).toString('hex');
const unhex = (text) => Uint8Array.from(Buffer.from(text, 'hex'));

class PowerCut extends Error {}

/** Numbers that look random and are the same each time. */
class Random {
  constructor(seed) { this.state = seed >>> 0 || 1; }

  next() {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state ^= this.state << 5;
    return this.state >>> 0;
  }
}

/** UART0's other end. Bytes wait until the receiver has room. */
class Uart {
  constructor(mcu) {
    this.mcu = mcu;
    this.toBoard = [];
    this.fromBoard = [];
    mcu.uart[0].onByte = (byte) => this.fromBoard.push(byte);
  }

  work() {
    const uart = this.mcu.uart[0];
    while (this.toBoard.length && uart.enabled && !uart.rxFIFO.full) uart.feedByte(this.toBoard.shift());
  }
}

/** A USB host at the other end of the cable, with the toggles of its own side. */
class UsbHost {
  constructor(mcu) {
    this.mcu = mcu;
    this.usb = mcu.usbCtrl;
    this.toBoard = [];
    this.fromBoard = [];
    this.packets = [];
    this.faults = [];
    this.isAway = false;
    this.held = new Set();
    this.restart();
    this.watch();
  }

  /** Nothing is under way. */
  restart() {
    this.transfer = null;
    this.outArmed = this.controlOutArmed = false;
    this.toggles = { in: 0, out: 0 };
    this.wasReset = false;
  }

  watch() {
    const carryOut = this.usb.DPRAMUpdated.bind(this.usb);
    this.usb.DPRAMUpdated = (offset, value) => {
      if (offset === EP0_IN && value & STALL) this.stall();
      if (!(value & AVAILABLE)) return;
      if (this.isAway) this.held.add(offset);
      else { this.checkToggle(offset, value); carryOut(offset, value); }
    };
    this.carryOut = carryOut;
    this.usb.onResetReceived = () => { this.wasReset = true; };
    this.usb.onEndpointWrite = (endpoint, bytes) => this.take(endpoint, bytes);
    this.usb.onEndpointRead = (endpoint) => this.arm(endpoint);
  }

  /** A packet with the other toggle is one that the host has already: it would drop it. */
  checkToggle(offset, value) {
    const toggle = value & DATA1 ? 1 : 0;
    const side = { [EP2_IN]: 'in', [EP2_OUT]: 'out' }[offset];
    if (side !== undefined) {
      if (toggle !== this.toggles[side]) this.faults.push(`endpoint 2 ${side}: DATA${toggle}`);
      this.toggles[side] ^= 1;
    } else if (offset === EP0_IN && this.transfer) {
      if (toggle !== this.transfer.toggle) this.faults.push(`endpoint 0 in: DATA${toggle}`);
      this.transfer.toggle ^= 1;
    } else if (offset === EP0_OUT && toggle !== 1) {
      this.faults.push('endpoint 0 out: DATA0');
    }
  }

  get isAttached() { return (this.usb.sieCtrl & PULLUP_EN) !== 0; }

  stall() {
    if (this.transfer) this.transfer.result = 'stall';
  }

  take(endpoint, bytes) {
    if (endpoint === 2) {
      this.packets.push(bytes.length);
      this.fromBoard.push(...bytes);
      return;
    }
    const transfer = this.transfer;
    if (endpoint !== 0 || !transfer) return;
    if (!transfer.isIn) { transfer.result = ''; return; }
    transfer.got.push(...bytes);
    transfer.toldAll = bytes.length < PACKET_BYTES || transfer.got.length >= transfer.wanted;
  }

  arm(endpoint) {
    if (endpoint === 2) this.outArmed = true;
    else this.controlOutArmed = true;
  }

  control(setup, data) {
    const isIn = (setup[0] & 0x80) !== 0;
    this.transfer = { isIn, data, got: [], toldAll: false, result: null, toggle: 1, wanted: setup[6] | setup[7] << 8 };
    this.controlOutArmed = false;
    if (setup[0] === 0 && setup[1] === 9) this.toggles = { in: 0, out: 0 };
    this.usb.sendSetupPacket(setup);
  }

  work() {
    if (this.isAway) return;
    if (this.outArmed && this.toBoard.length) {
      this.outArmed = false;
      this.usb.endpointReadDone(2, Uint8Array.from(this.toBoard.splice(0, PACKET_BYTES)));
    }
    const transfer = this.transfer;
    if (!transfer || !this.controlOutArmed || transfer.result !== null) return;
    if (transfer.isIn && transfer.toldAll) {
      this.controlOutArmed = false;
      this.usb.endpointReadDone(0, new Uint8Array(0));
      transfer.result = hex(transfer.got);
    } else if (!transfer.isIn && transfer.data.length) {
      this.controlOutArmed = false;
      this.usb.endpointReadDone(0, transfer.data);
      transfer.data = [];
    }
  }

  /** The bus is silent: no packet is taken or given. */
  leave() { this.isAway = true; }

  /** Takes what was left on the way, as far as the board still offers it. */
  comeBack() {
    this.isAway = false;
    const held = [...this.held];
    this.held.clear();
    for (const offset of held) {
      const value = this.mcu.usbDPRAMView.getUint32(offset, true);
      if (value & AVAILABLE) { this.checkToggle(offset, value); this.carryOut(offset, value); }
    }
  }
}

class Board {
  constructor(options) {
    this.options = options;
    this.random = new Random(options.seed ?? 1);
    this.rom = new Uint32Array(new Uint8Array(unhex(options.rom)).buffer);
    this.calls = new Map(Object.entries(options.functions).map(([name, at]) => [at, name]));
    this.counts = { instructions: 0, cycles: 0, erases: 0, programs: 0, restarts: 0, detached: 0 };
    this.complaints = [];
    this.cutAt = null;
    this.flash = new Uint8Array(FLASH_BYTES).fill(0xff);
    this.load(fs.readFileSync(options.uf2));
    this.powerOn();
  }

  load(file) {
    for (let at = 0; at < file.length; at += 512) {
      const words = [0, 4, 508].map((offset) => file.readUInt32LE(at + offset));
      if (words[0] !== 0x0a324655 || words[1] !== 0x9e5d5157 || words[2] !== 0x0ab16f30) throw new Error('no UF2 block');
      const [address, count] = [file.readUInt32LE(at + 12), file.readUInt32LE(at + 16)];
      this.flash.set(file.subarray(at + 32, at + 32 + count), address - FLASH);
    }
  }

  powerOn() {
    const ram = new Uint8Array(264 * 1024);
    for (let at = 0; at < ram.length; at += 1) ram[at] = this.random.next();
    this.boot(ram);
  }

  boot(ram) {
    const mcu = new RP2040();
    const log = (name, text) => { if (this.complaints.length < 20) this.complaints.push(`${name}: ${text}`); };
    mcu.logger = { debug() {}, info() {}, warn: log, error: log };
    mcu.loadBootrom(this.rom);
    mcu.flash.set(this.flash);
    mcu.sram.set(ram);
    this.mcu = mcu;
    this.line = this.options.line === 'usb' ? new UsbHost(mcu) : new Uart(mcu);
    mcu.peripherals[0x40058].onWatchdogTrigger = () => { this.wantsRestart = true; };
    mcu.onBreak = (code) => { throw new Error(`BKPT ${code} at ${mcu.core.PC.toString(16)}`); };
    this.isSerial = this.inBootloader = this.wantsRestart = this.isOff = false;
    this.pending = 0;
    this.answerFlashCommands();
    this.startBoot2();
  }

  /**
   * Single bytes to the flash chip. rp2040js answers each of them with 0, as if no chip were there;
   * this one says its maker (9Fh), its status (05h, 35h) and its number (4Bh and four more bytes).
   */
  answerFlashCommands() {
    const ssi = this.mcu.peripherals[0x18000];
    const [read, write] = [ssi.readUint32.bind(ssi), ssi.writeUint32.bind(ssi)];
    const chip = this.options.chip ? { 0x9f: [0xef, 0x40, 0x15], 0x05: [0], 0x35: [2] } : {};
    const answerTo = (sent) => {
      if (sent[0] === 0x4b) return unhex(this.options.number)[sent.length - 6] ?? 0;
      return chip[sent[0]]?.[sent.length - 2] ?? 0;
    };
    this.sent = [];
    let answers = [];
    ssi.writeUint32 = (offset, value) => {
      if (offset !== SSI_DATA) { write(offset, value); answers = []; return; }
      this.sent.push(value & 0xff);
      answers.push(answerTo(this.sent));
    };
    ssi.readUint32 = (offset) => {
      if (offset === SSI_DATA) return answers.shift() ?? 0;
      if (offset === SSI_STATUS && !this.isSerial) this.sent = []; // all was sent, the chip let go
      return read(offset);
    };
    this.ssi = ssi;
  }

  /** What the boot ROM does after a reset (2.8.1). */
  startBoot2() {
    let crc = 0xffffffff;
    for (const byte of this.flash.subarray(0, BOOT2_BYTES - 4)) {
      crc ^= byte << 24;
      for (let i = 0; i < 8; i += 1) crc = crc & 0x80000000 ? crc << 1 ^ 0x04c11db7 : crc << 1;
    }
    if (crc >>> 0 !== Buffer.from(this.flash.buffer).readUInt32LE(BOOT2_BYTES - 4)) throw new Error('boot2 has another checksum');
    this.mcu.sram.set(this.flash.subarray(0, BOOT2_BYTES), BOOT2_RUNS_AT - 0x20000000);
    this.mcu.core.PC = BOOT2_RUNS_AT;
    this.mcu.core.SP = BOOT2_RUNS_AT;
    this.mcu.core.LR = 0;
  }

  /** A function of the ROM, in the place of the trap that it consists of. */
  callRom(pc) {
    const { core } = this.mcu;
    const registers = core.registers;
    const name = this.calls.get(pc);
    if (pc === this.options.lookup) registers[0] = this.lookUp(registers[0], registers[1]);
    else if (name === 'UB') this.inBootloader = true;
    else if (name === 'EX') { this.isSerial = true; this.sent = []; }
    else if (name === 'FC') this.isSerial = false;
    else if (name === 'RE') this.change('erases', registers[0], registers[1], SECTOR, null);
    else if (name === 'RP') this.change('programs', registers[0], registers[2], 256, registers[1]);
    else if (name !== 'IF') throw new Error(`the ROM has no function at ${pc.toString(16)}`);
    core.PC = core.LR & ~1;
  }

  lookUp(table, code) {
    for (let at = table; ; at += 4) {
      const entry = this.mcu.readUint16(at);
      if (entry === 0) return 0;
      if (entry === (code & 0xffff)) return this.mcu.readUint16(at + 2);
    }
  }

  /** Erases, or clears bits. A power cut leaves a part, and bytes that are half done. */
  change(kind, offset, count, unit, source) {
    if (!this.isSerial || offset % unit || count % unit) throw new Error(`${kind} ${count} bytes at ${offset}`);
    const isCut = this.cutAt !== null && this.cutAt-- === 0;
    const end = offset + (isCut ? this.random.next() % count : count);
    for (let at = offset; at < end; at += 1) {
      const wanted = source === null ? 0xff : this.mcu.readUint8(source + at - offset);
      if ((this.flash[at] & wanted) !== wanted && source !== null) throw new Error(`byte ${at} is not erased`);
      this.flash[at] = wanted;
    }
    if (isCut) {
      for (let at = end; at < Math.min(end + 8, offset + count); at += 1) {
        this.flash[at] = source === null ? this.flash[at] | this.random.next() & 0xff : this.flash[at] & (this.random.next() & 0xff | this.mcu.readUint8(source + at - offset));
      }
      throw new PowerCut();
    }
    this.mcu.flash.set(this.flash.subarray(offset, offset + count), offset);
    this.counts[kind] += 1;
  }

  /** Runs until it is done, at most so long of the board's own time. */
  run(milliseconds, isDone) {
    const until = this.counts.cycles + milliseconds * CLOCK_HZ / 1000;
    try {
      while (this.counts.cycles < until && !this.isOff && !this.inBootloader) {
        this.step();
        if (this.pending >= TICK_CYCLES) {
          this.mcu.clock.tick(this.pending * 1e9 / CLOCK_HZ);
          this.pending = 0;
          this.line.work();
          this.watchCable();
          if (isDone()) return true;
        }
      }
    } catch (error) {
      if (!(error instanceof PowerCut)) throw error;
      this.cut();
    }
    return isDone();
  }

  step() {
    const { core } = this.mcu;
    const pc = core.PC;
    if (pc < ROM_END) this.callRom(pc);
    else if (this.isSerial && pc >= FLASH && pc < 0x20000000) throw new Error(`code in flash at ${pc.toString(16)}, which cannot be read`);
    else {
      const cycles = core.executeInstruction();
      this.counts.instructions += 1;
      this.counts.cycles += cycles;
      this.pending += cycles;
    }
    if (this.wantsRestart) {
      this.counts.restarts += 1;
      this.boot(this.mcu.sram.slice());
    }
  }

  /** Counts how often the board left the bus. */
  watchCable() {
    const isAttached = this.line.isAttached ?? false;
    if (this.wasAttached && !isAttached) this.counts.detached += 1;
    this.wasAttached = isAttached;
  }

  cut() {
    this.cutAt = null;
    this.isOff = true;
  }
}

let board = null;
const commands = {
  start(command) { board = new Board(command); return {}; },
  write({ bytes }) { board.line.toBoard.push(...unhex(bytes)); return {}; },
  /** What the board sent; waits for its first byte, and then a little for more. */
  read({ ms }) {
    const { line } = board;
    if (board.run(ms, () => line.fromBoard.length > 0)) board.run(0.5, () => false);
    return { bytes: hex(board.line.fromBoard.splice(0)), off: board.isOff };
  },
  run({ ms }) { board.run(ms, () => false); return {}; },
  attach({ ms }) { return { attached: board.run(ms, () => board.line.isAttached) }; },
  resetBus({ ms }) {
    const host = board.line;
    host.restart();
    host.usb.resetDevice();
    return { taken: board.run(ms, () => board.line.wasReset) };
  },
  control({ setup, data, ms }) {
    const host = board.line;
    host.control(unhex(setup), unhex(data));
    const since = board.counts.cycles;
    board.run(ms, () => host.transfer.result !== null);
    return { result: host.transfer.result, address: host.usb.addrEndp, ms: (board.counts.cycles - since) * 1000 / CLOCK_HZ };
  },
  clearHalt({ side }) { board.line.toggles[side] = 0; return {}; },
  waiting() { return { count: board.line.fromBoard.length }; },
  now() { return { ms: board.counts.cycles * 1000 / CLOCK_HZ }; },
  /** The cable is put in again: what was left on the way is gone. */
  plugIn() { board.line.held.clear(); board.line.isAway = false; return {}; },
  /** The bus is silent as soon as the board has what was sent to it. */
  leaveSilent({ ms }) {
    board.run(ms, () => board.line.toBoard.length === 0);
    board.line.leave();
    board.run(ms, () => false);
    return {};
  },
  comeBack() { board.line.comeBack(); return {}; },
  cut() { board.cut(); return {}; },
  cutInFlash({ index }) { board.cutAt = index; return {}; },
  powerOn() { board.powerOn(); return {}; },
  facts() {
    const { counts, complaints, inBootloader, isOff, ssi } = board;
    const reading = [0x00, 0x14, 0xf4, 0xf0].map((offset) => ssi.readUint32(offset) >>> 0);
    return { ...counts, complaints, inBootloader, isOff, reading, faults: board.line.faults ?? [], packets: board.line.packets?.splice(0) ?? [] };
  },
};

for await (const text of readline.createInterface({ input: process.stdin })) {
  const command = JSON.parse(text);
  let answer;
  try {
    answer = commands[command.do](command);
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
