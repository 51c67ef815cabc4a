"""The front end of keyword models: a second of sound becomes 49 frames of 10 MFCCs.

The reference model of MLPerf Tiny's keyword spotting (kws_ref_model) was trained on these.
Parameters and formulas are those of its training script and of TensorFlow's tf.signal. numpy and
scipy compute them here in double precision:

1. 16,000 samples at 16 kHz, divided by the largest; shorter sounds end in zeros.
2. Frames of 30 ms (480 samples) every 20 ms (320): 49, those that fit; times a periodic Hann
   window, w[i] = 1/2 - 1/2 cos(2 pi i / 480); padded with zeros to 512; magnitudes of the 257 bins
   of the discrete Fourier transform.
3. 40 triangular bands between 20 and 4,000 Hz, evenly spaced and linear on the mel scale,
   mel(f) = 1127 ln(1 + f / 700); bin 0 lies below all; each band peaks at 1.
4. The natural logarithm of (band + 1e-6).
5. The first 10 numbers of the DCT-II with HTK's scale: c[k] = sqrt(2 / 40) sum_m l[m]
   cos(pi k (m + 1/2) / 40).
"""

import numpy as np
import numpy.typing as npt

RATE_HZ = 16_000
LENGTH = 16_000
FRAME, STEP, POINTS = 480, 320, 512
BANDS, LOW_HZ, HIGH_HZ = 40, 20.0, 4000.0
FLOOR = 1e-6
COEFFICIENTS = 10
FRAMES = 1 + (LENGTH - FRAME) // STEP

Real = npt.NDArray[np.float64]


def mfcc(sound: Real) -> npt.NDArray[np.float32]:
    """float32 (49, 10) of a sound (16000,) of any scale."""
    from scipy.fft import dct  # slow to import

    largest = sound.max()
    scaled = sound / largest if largest > 0 else sound
    frames = np.lib.stride_tricks.sliding_window_view(scaled, FRAME)[::STEP]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    magnitudes = np.abs(np.fft.rfft(frames * window, POINTS, axis=1))
    logarithms = np.log(magnitudes @ mel_bands() + FLOOR)
    scale = 1 / np.sqrt(2 * BANDS)  # scipy's DCT-II has a factor of 2
    found: npt.NDArray[np.float32] = (dct(logarithms, axis=1) * scale)[:, :COEFFICIENTS].astype(
        np.float32
    )
    return found


def mel_bands() -> Real:
    """(257, 40): the weight of each bin in each band."""
    bins = _mel(np.linspace(0, RATE_HZ / 2, POINTS // 2 + 1))[:, np.newaxis]
    edges = np.linspace(_mel(np.array(LOW_HZ)), _mel(np.array(HIGH_HZ)), BANDS + 2)
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    weights: Real = np.maximum(0, np.minimum(rising, falling))
    return weights


def _mel(hertz: Real) -> Real:
    mel: Real = 1127.0 * np.log(1 + hertz / 700.0)
    return mel
