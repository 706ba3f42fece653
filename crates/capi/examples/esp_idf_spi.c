/* A simulated SPI NOR or SPI NAND in the place of esp-idf's SPI master, for drivers that are built on the host: the door is
 * spi_device_transmit(), and the headers are those of esp-idf. The handle of the device is the fg_device.
 *
 * A transaction has a command, an address, dummy cycles and data; its flags say on how many lines address and data go.
 */
#include <driver/spi_master.h>
#include <floatgate.h>

/* Bits to bytes, highest first. */
static size_t put_bits(uint8_t *bytes, uint64_t value, unsigned bits) {
  const size_t length = bits / 8;
  for (size_t at = 0; at < length; at++) bytes[at] = (uint8_t)(value >> (8 * (length - 1 - at)));
  return length;
}

static unsigned data_lanes(uint32_t flags) {
  if (flags & SPI_TRANS_MODE_QIO) return 4;
  return flags & SPI_TRANS_MODE_DIO ? 2 : 1;
}

esp_err_t spi_device_transmit(spi_device_handle_t handle, spi_transaction_t *transaction) {
  fg_device *chip = (fg_device *)handle;
  const spi_transaction_ext_t *sizes = (const spi_transaction_ext_t *)transaction;
  const uint32_t flags = transaction->flags, lanes = data_lanes(flags);
  const uint8_t *sent = flags & SPI_TRANS_USE_TXDATA ? transaction->tx_data : (const uint8_t *)transaction->tx_buffer;
  uint8_t *received = flags & SPI_TRANS_USE_RXDATA ? transaction->rx_data : (uint8_t *)transaction->rx_buffer;
  const size_t to_send = sent == NULL ? 0 : transaction->length / 8;
  size_t to_receive = received == NULL ? 0 : (transaction->rxlength ? transaction->rxlength : transaction->length) / 8;
  uint8_t header[8];
  fg_status status;

  size_t length = put_bits(header, transaction->cmd, flags & SPI_TRANS_VARIABLE_CMD ? sizes->command_bits : 8);
  status = fg_spi_transfer(chip, flags & SPI_TRANS_MULTILINE_CMD ? lanes : 1, FG_HOLD, header, NULL, length);
  length = put_bits(header, transaction->addr, flags & SPI_TRANS_VARIABLE_ADDR ? sizes->address_bits : 0);
  if (status == FG_OK && length > 0) status = fg_spi_transfer(chip, flags & SPI_TRANS_MULTILINE_ADDR ? lanes : 1, FG_HOLD, header, NULL, length);
  if (status == FG_OK && flags & SPI_TRANS_VARIABLE_DUMMY && sizes->dummy_bits > 0) status = fg_spi_dummy(chip, sizes->dummy_bits);
  if (status == FG_OK && to_send > 0) status = fg_spi_transfer(chip, lanes, FG_HOLD, sent, NULL, to_send);
  if (status == FG_OK && to_receive > 0) status = fg_spi_transfer(chip, lanes, FG_HOLD, NULL, received, to_receive);
  fg_spi_deselect(chip);
  return status == FG_OK ? ESP_OK : ESP_FAIL;
}
