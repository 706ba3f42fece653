//! Error correction for NAND: OOB layouts. The codecs come with the wear and error model.
#![no_std]
